//! The words of the command line: which stores and which parts of a benchmark to run.

/// All words that are no options.
#[derive(Debug)]
pub struct Asked(Vec<String>);

impl Asked {
    /// Of this process.
    #[must_use]
    pub fn from_args() -> Self {
        Self(std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect())
    }

    /// The first word for which `is` holds.
    #[must_use]
    pub fn find(&self, is: impl Fn(&str) -> bool) -> Option<&str> {
        self.0.iter().map(String::as_str).find(|word| is(word))
    }

    /// Whether to run `word`, one of the choices in `all`: it is named, or none of them is.
    #[must_use]
    pub fn wants(&self, word: &str, all: &[&str]) -> bool {
        self.find(|asked| asked == word).is_some()
            || self.find(|asked| all.contains(&asked)).is_none()
    }
}
