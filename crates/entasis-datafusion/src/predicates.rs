//! How a session has predicates answered: to measure what that is worth, and to find out who is wrong.

use std::any::Any;

use datafusion::{
    common::{Result, config_err},
    config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions},
};

/// How scans answer the predicates that they take: `SET entasis.predicates = '…'`. Answers are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Predicates {
    /// `encoded`: one after the other, on zones and on values as they are encoded.
    #[default]
    Encoded,
    /// `decoded`: one after the other, each on the decoded values of rows that those before it left.
    Decoded,
    /// `together`: all at once, on the decoded values of all rows; of other columns only rows that passed are decoded.
    Together,
    /// `left`: by the engine, to which every row is handed.
    Left,
}

const ALL: [(&str, Predicates); 4] = [
    ("encoded", Predicates::Encoded),
    ("decoded", Predicates::Decoded),
    ("together", Predicates::Together),
    ("left", Predicates::Left),
];

impl Predicates {
    /// What the session says.
    pub fn of(config: &ConfigOptions) -> Self {
        config.extensions.get::<ScanOptions>().map(|options| options.predicates).unwrap_or_default()
    }
}

/// The options of a session that begin with `entasis.`
#[derive(Debug, Clone, Default)]
pub(crate) struct ScanOptions {
    predicates: Predicates,
}

impl ScanOptions {
    /// Makes them known to a session that doesn't know them yet.
    pub fn register(config: &mut ConfigOptions) {
        if config.extensions.get::<Self>().is_none() {
            config.extensions.insert(Self::default());
        }
    }
}

impl ConfigExtension for ScanOptions {
    const PREFIX: &'static str = "entasis";
}

impl ExtensionOptions for ScanOptions {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        if key != "predicates" {
            return config_err!("entasis.{key}: there is entasis.predicates alone");
        }
        let Some((_, known)) = ALL.iter().find(|(name, _)| value.eq_ignore_ascii_case(name)) else {
            return config_err!("entasis.predicates: {value:?} is not 'encoded', 'decoded', 'together' or 'left'");
        };
        self.predicates = *known;
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let value = ALL.iter().find(|(_, known)| *known == self.predicates).map(|(name, _)| (*name).to_owned());
        let description = "How scans answer predicates: encoded, decoded, together or left";
        vec![ConfigEntry { key: "entasis.predicates".to_owned(), value, description }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_has_a_name_and_wrong_ones_are_told() {
        for (name, predicates) in ALL {
            let mut config = ConfigOptions::new();
            ScanOptions::register(&mut config);
            config.set("entasis.predicates", &name.to_uppercase()).unwrap();
            assert_eq!(Predicates::of(&config), predicates);
            let shown = config.entries().into_iter().find(|entry| entry.key == "entasis.predicates").unwrap();
            assert_eq!(shown.value.as_deref(), Some(name));
        }
        assert_eq!(Predicates::of(&ConfigOptions::new()), Predicates::Encoded);
        let mut options = ScanOptions::default();
        for (key, value) in [("predicates", "quickly"), ("speed", "encoded")] {
            assert!(options.set(key, value).unwrap_err().to_string().contains("entasis."), "{key} {value}");
        }
    }
}
