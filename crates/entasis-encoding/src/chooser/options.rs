//! What can be chosen about the choosing.

use std::fmt;
use std::str::FromStr;

use crate::encodings::Encoding;

/// How blocks are encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodeOptions {
    /// What a byte is worth against the time that decoding takes.
    pub profile: Profile,
    /// How many encodings may stand above one another before only those without encoded children are left: 3.
    pub max_depth: u8,
    /// Ids of the encodings that may be chosen; `None` for all. Another is used only where none of these can hold the values.
    pub allowed: Option<Vec<u8>>,
    /// Id of the encoding that values must have, nulls and large values aside; the chooser encodes its children. `None` leaves that to
    /// the chooser as well.
    pub required: Option<u8>,
    /// Whether what was chosen for a block is what the next one of the chunk is tried with first: true.
    pub follow_hints: bool,
}

impl Default for EncodeOptions {
    fn default() -> Self {
        Self { profile: Profile::Balanced, max_depth: 3, allowed: None, required: None, follow_hints: true }
    }
}

impl EncodeOptions {
    /// Options of a profile, all else being the default.
    pub fn of(profile: Profile) -> Self {
        Self { profile, ..Self::default() }
    }

    /// Whether the chooser may propose this encoding.
    pub(crate) fn allows(&self, encoding: &dyn Encoding) -> bool {
        match &self.allowed {
            Some(allowed) => allowed.contains(&encoding.id()),
            None => self.profile == Profile::Size || !encoding.is_heavy(),
        }
    }
}

/// What a byte is worth against the time that decoding takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Profile {
    /// The fewest bytes, whatever they cost.
    Size,
    /// Few bytes, unless they cost much more to decode than they save.
    #[default]
    Balanced,
    /// Quick decoding before few bytes.
    Scan,
}

impl Profile {
    /// All, from the smallest files to the quickest.
    pub const ALL: [Profile; 3] = [Profile::Size, Profile::Balanced, Profile::Scan];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Size => "size",
            Profile::Balanced => "balanced",
            Profile::Scan => "scan",
        }
    }

    /// How often the price of decoding counts.
    pub(crate) fn price_factor(self) -> f64 {
        match self {
            Profile::Size => 0.0,
            Profile::Balanced => 1.0,
            Profile::Scan => 5.0,
        }
    }

    /// By what share of their bytes the items of fixed-size lists have to shrink before they are encoded so that they can't be lent.
    /// Reading what is lent costs less than half of what the quickest decoding does.
    pub(crate) fn lent_share(self) -> f64 {
        match self {
            Profile::Size => 0.0,
            Profile::Balanced => 0.25,
            Profile::Scan => 0.5,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|profile| profile.name() == word);
        found.ok_or_else(|| format!("{word:?} is no profile; there are size, balanced and scan"))
    }
}
