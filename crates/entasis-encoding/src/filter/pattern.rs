//! SQL's LIKE, made ready to be asked of many strings.

use memchr::memmem::Finder;

use crate::predicate::{Like, first_character};

/// A pattern: stretches that lie one after the other, with anything between them.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    /// At the beginning; `None` where the pattern begins with `%`.
    begin: Option<Stretch>,
    /// Anywhere, in this order.
    middle: Vec<Stretch>,
    /// At the end; `None` where the pattern ends with `%`. Without any `%`, all of it is in `begin`.
    end: Option<Stretch>,
    /// There is a `%`.
    is_open: bool,
}

/// What simple patterns ask for: texts without single characters between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape<'p> {
    /// `text`.
    Equal(&'p [u8]),
    /// `text%`.
    Begin(&'p [u8]),
    /// `%text`.
    End(&'p [u8]),
    /// `%text%`.
    Inside(&'p [u8]),
    /// Any other, and what every string matches.
    Other,
}

/// What stands between two `%`, not empty but in a pattern without any: texts, with single characters between them.
#[derive(Debug, Clone, Default)]
struct Stretch {
    /// The text of each, and how many characters of any kind stand before it.
    parts: Vec<(usize, Vec<u8>)>,
    /// How many stand behind the last.
    trailing: usize,
    /// Finds the first part, where nothing stands before it.
    finder: Option<Finder<'static>>,
}

impl Pattern {
    pub fn new(like: &Like) -> Self {
        let mut stretches = vec![Stretch::default()];
        let mut bytes = like.pattern.iter().copied();
        let mut is_open = false;
        while let Some(byte) = bytes.next() {
            let Some(stretch) = stretches.last_mut() else { break };
            match byte {
                // An escape that nothing follows stands for itself.
                escape if like.escape == Some(escape) => stretch.push(bytes.next().unwrap_or(escape)),
                b'%' => {
                    is_open = true;
                    stretches.push(Stretch::default());
                }
                b'_' => stretch.trailing += 1,
                byte => stretch.push(byte),
            }
        }
        stretches.iter_mut().for_each(Stretch::finish);
        let mut stretches = stretches.into_iter();
        let begin = stretches.next().filter(|begin| !is_open || !begin.is_empty());
        let mut middle: Vec<Stretch> = stretches.collect();
        let end = middle.pop().filter(|end| !end.is_empty());
        middle.retain(|stretch| !stretch.is_empty());
        Self { begin, middle, end, is_open }
    }

    /// Whether every string matches.
    pub fn is_any(&self) -> bool {
        self.is_open && self.begin.is_none() && self.middle.is_empty() && self.end.is_none()
    }

    /// What it asks for, if that is simple.
    pub fn shape(&self) -> Shape<'_> {
        let texts = (self.begin.as_ref().map(Stretch::text), self.end.as_ref().map(Stretch::text));
        match (texts, self.middle.as_slice()) {
            ((Some(Some(text)), None), []) if self.is_open => Shape::Begin(text),
            ((Some(Some(text)), None), []) => Shape::Equal(text),
            ((None, Some(Some(text))), []) => Shape::End(text),
            ((None, None), [only]) => only.text().map_or(Shape::Other, Shape::Inside),
            _ => Shape::Other,
        }
    }

    /// Texts of every string that matches, none of them empty: what it begins with, what it ends with, and the longest that it holds
    /// somewhere else.
    pub fn texts(&self) -> [Option<&[u8]>; 3] {
        let begin = self.begin.as_ref().and_then(|begin| begin.parts.first()).filter(|(before, _)| *before == 0);
        let end = self.end.as_ref().filter(|end| end.trailing == 0).and_then(|end| end.parts.last());
        let known =
            |part: &&(usize, Vec<u8>)| ![begin, end].into_iter().flatten().any(|known| std::ptr::eq(known, *part));
        let stretches = self.begin.iter().chain(&self.middle).chain(&self.end);
        let longest = stretches.flat_map(|stretch| &stretch.parts).filter(known).max_by_key(|(_, text)| text.len());
        [begin, end, longest].map(|part| part.map(|(_, text)| text.as_slice()))
    }

    /// Whether all of `text` matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        let mut rest = text;
        if let Some(begin) = &self.begin {
            match begin.at_beginning(rest) {
                Some(behind) => rest = behind,
                None => return false,
            }
        }
        if !self.is_open {
            return rest.is_empty();
        }
        for stretch in &self.middle {
            match stretch.anywhere(rest) {
                Some(behind) => rest = behind,
                None => return false,
            }
        }
        self.end.as_ref().is_none_or(|end| end.at_end(rest))
    }
}

impl Stretch {
    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.trailing == 0
    }

    /// The text that is all of it.
    fn text(&self) -> Option<&[u8]> {
        match (self.parts.as_slice(), self.trailing) {
            ([(0, text)], 0) => Some(text),
            ([], 0) => Some(&[]),
            _ => None,
        }
    }

    fn push(&mut self, byte: u8) {
        match self.parts.last_mut() {
            Some((_, text)) if self.trailing == 0 => text.push(byte),
            _ => self.parts.push((std::mem::take(&mut self.trailing), vec![byte])),
        }
    }

    fn finish(&mut self) {
        if let Some((0, text)) = self.parts.first() {
            self.finder = Some(Finder::new(text).into_owned());
        }
    }

    /// What follows, if `text` begins with this.
    fn at_beginning<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        let mut rest = text;
        for (before, part) in &self.parts {
            rest = skip(rest, *before)?.strip_prefix(part.as_slice())?;
        }
        skip(rest, self.trailing)
    }

    /// What follows the first place in `text` where this stands.
    fn anywhere<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        let mut rest = text;
        loop {
            if let Some(finder) = &self.finder {
                rest = &rest[finder.find(rest)?..];
            }
            if let Some(behind) = self.at_beginning(rest) {
                return Some(behind);
            }
            rest = skip(rest, 1)?;
        }
    }

    /// Whether `text` ends with this.
    fn at_end(&self, text: &[u8]) -> bool {
        if let ([(0, part)], 0) = (self.parts.as_slice(), self.trailing) {
            return text.ends_with(part);
        }
        // Characters are of several lengths: only from the left can they be counted.
        let mut rest = text;
        loop {
            if self.at_beginning(rest).is_some_and(<[u8]>::is_empty) {
                return true;
            }
            match skip(rest, 1) {
                Some(behind) => rest = behind,
                None => return false,
            }
        }
    }
}

/// What follows the first `count` characters; `None` if there are fewer.
fn skip(text: &[u8], count: usize) -> Option<&[u8]> {
    (0..count).try_fold(text, |rest, _| (!rest.is_empty()).then(|| &rest[first_character(rest)..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predicate::{Predicate, Scalar};
    use crate::random::Random;

    #[test]
    fn patterns_match_what_the_definition_matches() {
        let mut random = Random::new(23);
        let mut word = |symbols: &[&str], most: usize| -> String {
            (0..random.below(most + 1)).map(|_| symbols[random.below(symbols.len())]).collect()
        };
        let mut matched = 0;
        for _ in 0..40_000 {
            let pattern = word(&["a", "b", "é", "%", "%", "_", "\\"], 8);
            let text = word(&["a", "b", "é", "%", "_", "\\"], 9);
            for escape in [None, Some(b'\\')] {
                let like = Like { pattern: pattern.as_bytes().to_vec(), escape, negated: false };
                let matches = Pattern::new(&like).matches(text.as_bytes());
                let holds = Predicate::Like(like).holds(Some(&Scalar::Bytes(text.as_bytes().to_vec())));
                assert_eq!(matches, holds, "{text:?} LIKE {pattern:?} ESCAPE {escape:?}");
                matched += usize::from(holds);
            }
        }
        assert!(matched > 5_000, "{matched} of 80,000 match");
    }

    #[test]
    fn bytes_that_are_no_text_are_characters_of_their_own() {
        let like = |pattern: &[u8]| Pattern::new(&Like { pattern: pattern.to_vec(), escape: None, negated: false });
        assert!(like(b"__").matches(b"\xff\xfe") && like(b"_").matches("é".as_bytes()));
        assert!(!like(b"_").matches(b"\xff\xfe") && like(b"%\xfe").matches(b"\xff\xfe"));
        assert!(like(b"%").is_any() && like(b"%%").is_any() && !like(b"").is_any() && !like(b"_%").is_any());
    }
}
