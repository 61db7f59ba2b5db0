//! What fields the objects of an NDJSON file have, and values of what kind: told by parsing every line, in the order in which fields
//! first come up.
//!
//! Numbers without a fraction are 64-bit integers, all others doubles. A field whose values are of kinds that no Arrow type has together is
//! an error with its line, for either of the two is likely a mistake. Fields that only have nulls are of type Null.

use std::fmt;

use arrow_schema::{DataType, Field, Fields};
use indexmap::IndexMap;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The objects of all lines so far.
pub struct Table {
    members: Members,
    context: Context,
}

/// Fields of objects, by name.
#[derive(Default)]
struct Members(IndexMap<String, Member>);

struct Member {
    shape: Shape,
    /// The number of the object that had it last: one object can't have it twice.
    object: u64,
}

/// What a field's values are.
enum Shape {
    /// Nothing but nulls so far.
    Unknown,
    Boolean,
    Number(Numbers),
    /// With whether all of it names special numbers, which JSON can't write as numbers.
    Text {
        is_special: bool,
    },
    List(Box<Shape>),
    Object(Members),
    /// Stated, and not told from values.
    Stated(DataType),
}

/// What kinds of numbers there are.
#[derive(Clone, Copy, Default, PartialEq)]
struct Numbers {
    is_negative: bool,
    is_above_i64: bool,
    has_fraction: bool,
}

/// What is known while one line is visited.
struct Context {
    /// Types that are stated, by path, and whether there is such a field.
    stated: Vec<(String, DataType, bool)>,
    /// Names from the line's object to the value, with dots between.
    path: String,
    objects: u64,
    /// Types are settled: a value that would change one is an error.
    is_settled: bool,
    /// What is wrong with the value at `path`.
    problem: Option<String>,
}

impl Table {
    /// No line has been seen. `stated` are types by the path of their field; `*` is every field of the line's object.
    pub fn new(stated: &[(String, DataType)]) -> Self {
        let stated = stated.iter().map(|(path, data_type)| (path.clone(), data_type.clone(), false)).collect();
        let context = Context { stated, path: String::new(), objects: 0, is_settled: false, problem: None };
        Table { members: Members::default(), context }
    }

    /// Takes in a line.
    ///
    /// # Errors
    /// What is wrong with it, in words, place within the line included.
    pub fn line(&mut self, line: &[u8]) -> Result<(), String> {
        if line.trim_ascii_start().first() != Some(&b'{') {
            return Err("column 1: each line of NDJSON is one JSON object, between { and }".to_owned());
        }
        self.context.path.clear();
        let mut deserializer = serde_json::Deserializer::from_slice(line.trim_ascii_end());
        let objects = Objects { members: &mut self.members, context: &mut self.context };
        let visited = deserializer.deserialize_map(objects).and_then(|()| deserializer.end());
        visited.map_err(|error| match self.context.problem.take() {
            Some(problem) => format!("field {}: {problem}", self.context.path),
            None => {
                let words = error.to_string();
                let words = words.rsplit_once(" at line ").map_or(words.as_str(), |(words, _)| words);
                let remedy = if error.is_eof() { "; each line of NDJSON is a whole object" } else { "" };
                format!("column {}: {words}{remedy}", error.column())
            }
        })
    }

    /// From now on a line that would change the type of a field is an error.
    pub fn settle(&mut self) {
        self.context.is_settled = true;
    }

    /// The fields, all nullable.
    pub fn fields(&self) -> Fields {
        self.members.fields()
    }

    /// The first path of a stated type that no field has.
    pub fn unused(&self) -> Option<&str> {
        self.context.stated.iter().find(|(.., is_used)| !is_used).map(|(path, ..)| path.as_str())
    }
}

impl Members {
    fn fields(&self) -> Fields {
        self.0.iter().map(|(name, member)| Field::new(name, member.shape.data_type(), true)).collect()
    }
}

impl Numbers {
    fn data_type(self) -> DataType {
        match self {
            Numbers { has_fraction: true, .. } => DataType::Float64,
            // No type of numbers holds both exactly.
            Numbers { is_above_i64: true, is_negative: true, .. } => DataType::Utf8,
            Numbers { is_above_i64: true, .. } => DataType::UInt64,
            _ => DataType::Int64,
        }
    }

    fn or(self, other: Self) -> Self {
        Numbers {
            is_negative: self.is_negative | other.is_negative,
            is_above_i64: self.is_above_i64 | other.is_above_i64,
            has_fraction: self.has_fraction | other.has_fraction,
        }
    }

    fn words(self) -> &'static str {
        if self.has_fraction { "a number with a fraction or an exponent" } else { "a number" }
    }
}

impl Shape {
    fn stated(data_type: &DataType) -> Self {
        match data_type {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                Shape::List(Box::new(Shape::stated(item.data_type())))
            }
            other => Shape::Stated(other.clone()),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            Shape::Unknown => DataType::Null,
            Shape::Boolean => DataType::Boolean,
            Shape::Number(numbers) => numbers.data_type(),
            Shape::Text { .. } => DataType::Utf8,
            Shape::List(item) => DataType::new_list(item.data_type(), true),
            Shape::Object(members) => DataType::Struct(members.fields()),
            Shape::Stated(data_type) => data_type.clone(),
        }
    }

    fn words(&self) -> &'static str {
        match self {
            Shape::Unknown => "null",
            Shape::Boolean => "true or false",
            Shape::Number(_) => "a number",
            Shape::Text { .. } => "text",
            Shape::List(_) => "a list",
            Shape::Object(_) => "an object",
            Shape::Stated(_) => "a value of the type that was stated",
        }
    }
}

impl Context {
    fn problem<E: Error>(&mut self, problem: String) -> E {
        self.problem = Some(problem);
        E::custom("")
    }

    fn conflict<E: Error>(&mut self, shape: &Shape, found: &str) -> E {
        let remedy = match (shape, found) {
            (Shape::List(_) | Shape::Object(_), _) | (_, "a list" | "an object") => String::new(),
            _ => format!("; to read the field as text: --types {}=string", self.path),
        };
        self.problem(format!("{found}, where lines before have {}{remedy}", shape.words()))
    }

    /// Asks whether types may still change because of a value, in words.
    fn change<E: Error>(&mut self, value: &str) -> Result<(), E> {
        if !self.is_settled {
            return Ok(());
        }
        Err(self.problem(format!(
            "{value}, unlike in the lines that types were told from; --infer-rows all looks at every line"
        )))
    }

    /// The type that is stated for a new field at the path.
    fn stated(&mut self, name: &str, is_top: bool) -> Option<Shape> {
        let meant = |path: &str| path == self.path || (is_top && (path == "*" || path == name));
        let mut found = None;
        for (path, data_type, is_used) in &mut self.stated {
            if meant(path) {
                *is_used = true;
                found = Some(Shape::stated(data_type));
            }
        }
        found
    }
}

/// Visits a value, and widens a shape by it.
struct Values<'a> {
    shape: &'a mut Shape,
    context: &'a mut Context,
}

impl Values<'_> {
    fn number<E: Error>(self, numbers: Numbers) -> Result<(), E> {
        let known = match self.shape {
            Shape::Unknown => None,
            Shape::Number(known) => Some(*known),
            Shape::Text { is_special: true } => Some(Numbers { has_fraction: true, ..Numbers::default() }),
            other => return Err(self.context.conflict(other, numbers.words())),
        };
        let wider = known.unwrap_or(numbers).or(numbers);
        if known.is_none_or(|known| known.data_type() != wider.data_type()) {
            self.context.change(numbers.words())?;
        }
        *self.shape = Shape::Number(wider);
        Ok(())
    }

    /// A number for a field whose type is stated: what the reader would round or cut off without a word is refused here.
    fn stated_number<E: Error>(self, data_type: &DataType, number: f64) -> Result<(), E> {
        const EXACT_BELOW: f64 = (1u64 << 53) as f64;
        let fits = match data_type {
            DataType::Float16 => number.abs() < 65_520.0,
            DataType::Float32 => (number as f32).is_finite(),
            DataType::Float64 | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
            other if other.is_decimal() => true,
            _ => number.fract() == 0.0 && number.abs() <= EXACT_BELOW,
        };
        if fits { Ok(()) } else { Err(self.context.problem(format!("{number} is not {data_type}"))) }
    }
}

/// Names that stand for numbers which JSON can't write, as they do in Protobuf's JSON.
pub const SPECIAL_NUMBERS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

impl<'de> DeserializeSeed<'de> for Values<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Values<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        match self.shape {
            Shape::Boolean | Shape::Stated(_) => Ok(()),
            Shape::Unknown => {
                self.context.change("true or false")?;
                *self.shape = Shape::Boolean;
                Ok(())
            }
            other => Err(self.context.conflict(other, "true or false")),
        }
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        match self.shape {
            Shape::Stated(_) => Ok(()),
            _ => self.number(Numbers { is_negative: number < 0, ..Numbers::default() }),
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        match self.shape {
            Shape::Stated(_) => Ok(()),
            _ => self.number(Numbers { is_above_i64: i64::try_from(number).is_err(), ..Numbers::default() }),
        }
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        match self.shape {
            Shape::Stated(data_type) => {
                let data_type = data_type.clone();
                self.stated_number(&data_type, number)
            }
            _ => self.number(Numbers { has_fraction: true, ..Numbers::default() }),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        let is_special = SPECIAL_NUMBERS.contains(&text);
        match self.shape {
            Shape::Stated(_) => return Ok(()),
            Shape::Number(_) if is_special => return self.number(Numbers { has_fraction: true, ..Numbers::default() }),
            Shape::Text { is_special: known } => *known &= is_special,
            Shape::Unknown => {
                self.context.change("text")?;
                *self.shape = Shape::Text { is_special };
            }
            other => return Err(self.context.conflict(other, "text")),
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        match self.shape {
            Shape::List(_) => (),
            Shape::Unknown => {
                self.context.change("a list")?;
                *self.shape = Shape::List(Box::new(Shape::Unknown));
            }
            // What other types make of lists, the reader says.
            Shape::Stated(_) => {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(());
            }
            other => return Err(self.context.conflict(other, "a list")),
        }
        if let Shape::List(item) = self.shape {
            while items.next_element_seed(Values { shape: item, context: self.context })?.is_some() {}
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        match self.shape {
            Shape::Object(_) => (),
            Shape::Unknown => {
                self.context.change("an object")?;
                *self.shape = Shape::Object(Members::default());
            }
            Shape::Stated(_) => {
                while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                return Ok(());
            }
            other => return Err(self.context.conflict(other, "an object")),
        }
        match self.shape {
            Shape::Object(members) => Objects { members, context: self.context }.visit_map(fields),
            _ => Ok(()),
        }
    }
}

/// Visits an object.
struct Objects<'a> {
    members: &'a mut Members,
    context: &'a mut Context,
}

impl<'de> Visitor<'de> for Objects<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        self.context.objects += 1;
        let (object, path_bytes) = (self.context.objects, self.context.path.len());
        let mut expected = 0;
        while let Some(index) =
            fields.next_key_seed(Name { members: self.members, context: self.context, object, expected })?
        {
            let (_, member) = self.members.0.get_index_mut(index).ok_or_else(|| A::Error::custom("no such field"))?;
            fields.next_value_seed(Values { shape: &mut member.shape, context: self.context })?;
            self.context.path.truncate(path_bytes);
            expected = index + 1;
        }
        Ok(())
    }
}

/// Finds the field of a name, which becomes the end of the path.
struct Name<'a> {
    members: &'a mut Members,
    context: &'a mut Context,
    object: u64,
    /// Objects mostly have the same fields in the same order.
    expected: usize,
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = usize;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<usize, E> {
        let is_top = self.context.path.is_empty();
        if !is_top {
            self.context.path.push('.');
        }
        self.context.path.push_str(name);
        let members = &mut self.members.0;
        let found = match members.get_index(self.expected) {
            Some((expected, _)) if expected == name => Some(self.expected),
            _ => members.get_index_of(name),
        };
        let index = match found {
            Some(index) => index,
            None => {
                self.context.change("a field that is new")?;
                let shape = self.context.stated(name, is_top).unwrap_or(Shape::Unknown);
                members.insert_full(name.to_owned(), Member { shape, object: 0 }).0
            }
        };
        if std::mem::replace(&mut members[index].object, self.object) == self.object {
            return Err(self.context.problem("stands twice in one object".to_owned()));
        }
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &[&str], stated: &[(&str, DataType)]) -> Result<Fields, String> {
        let stated: Vec<_> = stated.iter().map(|(path, data_type)| ((*path).to_owned(), data_type.clone())).collect();
        let mut table = Table::new(&stated);
        lines.iter().try_for_each(|line| table.line(line.as_bytes()))?;
        Ok(table.fields())
    }

    #[test]
    fn types_hold_every_value() {
        for (values, expected) in [
            (&["1", "null", "-2"][..], DataType::Int64),
            (&["1", "2.5"], DataType::Float64),
            (&["1e2"], DataType::Float64),
            (&["1", "\"NaN\"", "\"-Infinity\""], DataType::Float64),
            (&["\"NaN\"", "1"], DataType::Float64),
            (&["\"NaN\"", "\"Ann\""], DataType::Utf8),
            (&["18446744073709551615"], DataType::UInt64),
            (&["18446744073709551615", "-1"], DataType::Utf8),
            (&["true", "null"], DataType::Boolean),
            (&["null"], DataType::Null),
            (&["[]", "[[]]"], DataType::new_list(DataType::new_list(DataType::Null, true), true)),
            (&["[null]", "[1, 2.5]"], DataType::new_list(DataType::Float64, true)),
        ] {
            let lines: Vec<String> = values.iter().map(|value| format!("{{\"a\": {value}}}")).collect();
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let fields = told(&lines, &[]).unwrap();
            assert_eq!(fields[0].data_type(), &expected, "{values:?}");
        }
    }

    #[test]
    fn fields_keep_the_order_in_which_they_come_up() {
        let fields = told(&[r#"{"z": {"b": 1, "a": "x"}, "y": [{"q": true}]}"#, r#"{"x": 1, "z": {"c": null}}"#], &[]);
        let words: Vec<String> =
            fields.unwrap().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
        assert_eq!(words.len(), 3);
        assert!(words[0].starts_with("z Struct(\"b\": Int64, \"a\": Utf8, \"c\": Null)"), "{words:?}");
        assert!(words[1].starts_with("y List(") && words[2] == "x Int64", "{words:?}");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_field() {
        for (lines, expected) in [
            (
                &[r#"{"a": {"b": 1}}"#, r#"{"a": {"b": "x"}}"#][..],
                "field a.b: text, where lines before have a number; to read",
            ),
            (&[r#"{"a": "x"}"#, r#"{"a": 1.5}"#], "field a: a number with a fraction"),
            (&[r#"{"a": [1]}"#, r#"{"a": 1}"#], "field a: a number, where lines before have a list"),
            (&[r#"{"a": 1, "b": 2, "a": 3}"#], "field a: stands twice"),
            (&[r#"{"a": 1} {"a": 2}"#], "column 10: trailing characters"),
            (&[r#"{"a": 1e999}"#], "column 11: number out of range"),
            (&["[1]"], "one JSON object"),
            (&[r#"{"a": "\ud800"}"#], "column 1"),
            (&[r#"{"a": 1"#], "column 7: EOF"),
        ] {
            let problem = told(lines, &[]).unwrap_err();
            assert!(problem.contains(expected), "{expected} in {problem}");
        }
        let deep = format!("{{\"a\": {}{}}}", "[".repeat(200), "]".repeat(200));
        assert!(told(&[&deep], &[]).unwrap_err().contains("recursion limit"));
    }

    #[test]
    fn settled_types_change_no_more() {
        let mut table = Table::new(&[]);
        table.line(br#"{"a": 1, "b": null, "c": [1]}"#).unwrap();
        table.settle();
        table.line(br#"{"a": -9, "c": []}"#).unwrap();
        for line in [r#"{"a": 1.5}"#, r#"{"b": 1}"#, r#"{"d": 1}"#, r#"{"c": [0.5]}"#] {
            let problem = table.line(line.as_bytes()).unwrap_err();
            assert!(problem.contains("--infer-rows all"), "{problem}");
        }
        assert_eq!(table.fields().len(), 3);
    }

    #[test]
    fn stated_types_are_kept_and_numbers_have_to_fit() {
        let stated = [("a", DataType::Int8), ("s.x", DataType::Float32), ("t", DataType::Utf8)];
        let lines = [r#"{"t": 1, "a": "5", "s": {"x": 1.5}}"#, r#"{"t": "x", "a": 1e2}"#];
        let fields = told(&lines, &stated).unwrap();
        assert_eq!((fields[0].data_type(), fields[1].data_type()), (&DataType::Utf8, &DataType::Int8));
        for line in [r#"{"a": 1.5}"#, r#"{"s": {"x": 1e39}}"#] {
            assert!(told(&[line], &stated).unwrap_err().contains(" is not "));
        }
        let list = DataType::new_list(DataType::Int32, true);
        assert!(told(&[r#"{"a": [1, 2.5]}"#], &[("a", list)]).is_err());
        let all = told(&[r#"{"a": 1, "b": true}"#], &[("*", DataType::Utf8)]).unwrap();
        assert!(all.iter().all(|field| field.data_type() == &DataType::Utf8));
    }
}
