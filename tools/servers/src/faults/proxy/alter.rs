//! What a client sends or a server answers, altered on its way: the text of a script with a guard
//! left out, or the address of another server.

/// A change of what a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Puts the second text in the place of the guard of the first's name. An empty text leaves the
    /// guard out. The comment before the guard is given up too, so the text may be as long as both.
    Guard(&'a str, &'a str),
    /// Puts the second text in the place of the first, which is not shorter.
    Text(&'a str, &'a str),
}

/// The beginning of the comment line before the guard of this name. A guard in a script or
/// statement is the first line behind it that is no comment.
#[must_use]
pub fn marker(name: &str) -> String {
    format!("-- guard: {name} |")
}

/// How long a marker and its guard are in `bytes`, which begin with the marker. `None` if the end
/// is still to come.
#[must_use]
pub fn guard_length(bytes: &[u8], is_all: bool) -> Option<usize> {
    let mut from = 0;
    loop {
        let rest = &bytes[from..];
        // PostgreSQL's protocol ends a statement with a zero byte.
        let end = rest.iter().position(|byte| matches!(byte, b'\n' | 0));
        let end = end.or_else(|| is_all.then_some(rest.len()))?;
        if !rest[..end].trim_ascii_start().starts_with(b"--") || rest.get(end) != Some(&b'\n') {
            return Some(from + end);
        }
        from += end + 1;
    }
}

/// A replacement of some bytes by as many others.
#[derive(Clone, Debug)]
pub(super) struct Alteration {
    from: Vec<u8>,
    to: Vec<u8>,
    /// `from` is a marker. Its guard is replaced as well.
    of_guard: bool,
}

impl Alteration {
    /// `to` is filled up with spaces, so that lengths that were sent before stay right.
    pub(super) fn new(from: &str, to: &str) -> Option<Self> {
        let fits = from.len() > SHORTEST && to.len() <= from.len() && from != to;
        let (from, to) = (from.as_bytes().to_vec(), to.as_bytes().to_vec());
        fits.then_some(Self { from, to, of_guard: false })
    }

    pub(super) fn of(change: Change<'_>) -> Option<Self> {
        match change {
            Change::Text(from, to) => Self::new(from, to),
            Change::Guard(name, to) => {
                let (from, to) = (marker(name).into_bytes(), to.as_bytes().to_vec());
                Some(Self { from, to, of_guard: true })
            }
        }
    }

    /// How many bytes of it at the end of a chunk are held back at least.
    fn shortest(&self) -> usize {
        if self.of_guard { 1 } else { SHORTEST }
    }

    /// How many bytes are to be replaced where `bytes` begins with `from`. `None` if the end is
    /// still to come.
    fn length(&self, bytes: &[u8], is_all: bool) -> Option<usize> {
        if self.of_guard { guard_length(bytes, is_all) } else { Some(self.from.len()) }
    }

    /// Replaces in `bytes`. Returns how often it did, and where a text begins whose end is still to
    /// come.
    fn apply(&self, bytes: &mut [u8], is_all: bool) -> (u64, Option<usize>) {
        let (mut count, mut at) = (0, 0);
        while let Some(found) = find(&bytes[at..], &self.from) {
            at += found;
            let Some(length) = self.length(&bytes[at..], is_all) else { return (count, Some(at)) };
            let place = &mut bytes[at..at + length];
            at += length;
            // A guard that is too short for its replacement counts as not replaced.
            if self.to.len() <= length {
                place.fill(b' ');
                place[..self.to.len()].copy_from_slice(&self.to);
                count += 1;
            }
        }
        (count, None)
    }
}

/// So much of a text at the end of what came is held back, since the rest may follow. Less is not:
/// it would hold up every message that happens to end like this. No message ends like the beginning
/// of a marker.
const SHORTEST: usize = 4;

/// One direction of one connection.
#[derive(Debug)]
pub(super) struct Altering<'a> {
    rules: &'a [Alteration],
    held_back: Vec<u8>,
}

impl<'a> Altering<'a> {
    pub(super) fn new(rules: &'a [Alteration]) -> Self {
        Self { rules, held_back: Vec::new() }
    }

    /// Whether something waits for what follows.
    pub(super) fn holds_back(&self) -> bool {
        !self.held_back.is_empty()
    }

    /// The bytes that were held back, where nothing followed, and how often something was replaced
    /// in it.
    pub(super) fn let_go(&mut self) -> (Vec<u8>, u64) {
        self.pass(Vec::new())
    }

    /// The bytes to send on now, and how often something was replaced in them. An empty chunk is
    /// the end.
    pub(super) fn pass(&mut self, chunk: Vec<u8>) -> (Vec<u8>, u64) {
        if self.rules.is_empty() {
            return (chunk, 0);
        }
        let is_all = chunk.is_empty();
        let mut bytes = std::mem::take(&mut self.held_back);
        bytes.extend(chunk);
        let (mut count, mut sent) = (0, bytes.len());
        for rule in self.rules {
            let (replaced, open) = rule.apply(&mut bytes, is_all);
            count += replaced;
            sent = sent.min(open.unwrap_or(sent));
        }
        if !is_all {
            let begun = |rule: &Alteration| {
                let longest = (rule.from.len() - 1).min(bytes.len());
                (rule.shortest()..=longest)
                    .rev()
                    .find(|length| bytes.ends_with(&rule.from[..*length]))
            };
            let begun = self.rules.iter().filter_map(begun).max().unwrap_or(0);
            self.held_back = bytes.split_off(sent.min(bytes.len() - begun));
        }
        (bytes, count)
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(parts: &[&[u8]]) -> (Vec<u8>, u64) {
        passed_by(Change::Text("if owner then", "if true then"), parts)
    }

    fn passed_by(change: Change<'_>, parts: &[&[u8]]) -> (Vec<u8>, u64) {
        let rules = [Alteration::of(change).unwrap()];
        let (mut altering, mut out, mut count) = (Altering::new(&rules), Vec::new(), 0);
        for part in parts {
            let (bytes, found) = altering.pass(part.to_vec());
            out.extend(bytes);
            count += found;
        }
        (out, count)
    }

    #[test]
    fn a_text_is_replaced_also_where_it_came_in_parts() {
        let text = b"a if owner then b if owner then";
        for cut in [1, 6, 10, 15, 17, 22, 30] {
            let (out, count) = passed(&[&text[..cut], &text[cut..], b""]);
            assert_eq!((count, out.len()), (2, text.len()), "cut at {cut}");
        }
        // Bytes that were held back are sent when nothing follows.
        assert_eq!(passed(&[b"a if own", b""]), (b"a if own".to_vec(), 0));
        assert_eq!(passed(&[b"a if"]).0, b"a if", "too short to be held back");
    }

    #[test]
    fn a_guard_is_replaced() {
        let text =
            b"a\n -- guard: one | S1 | case\n  if x then\nb\n-- guard: two |\n-- why\nif y then\nc";
        for cut in 1..text.len() {
            let parts = [&text[..cut], &text[cut..], b""];
            let (out, count) = passed_by(Change::Guard("one", ""), &parts);
            let told = String::from_utf8(out).unwrap();
            assert_eq!((count, told.len()), (1, text.len()), "cut at {cut}");
            assert!(
                !told.contains("if x")
                    && told.contains("\nb\n-- guard: two |\n-- why\nif y then\nc")
            );
            let (out, count) = passed_by(Change::Guard("two", "if a longer one then"), &parts);
            let told = String::from_utf8(out).unwrap();
            assert!(told.contains("\nif a longer one then") && told.ends_with(" \nc"), "{told}");
            assert_eq!(count, 1, "cut at {cut}");
        }
        let too_long = "x".repeat(60);
        assert_eq!(passed_by(Change::Guard("one", &too_long), &[text, b""]), (text.to_vec(), 0));
        assert_eq!(passed_by(Change::Guard("on", ""), &[text, b""]), (text.to_vec(), 0));
        // The last line of a text ends where nothing follows, or with a zero byte.
        let (out, count) = passed_by(Change::Guard("one", ""), &[b"-- guard: one |\nlast", b""]);
        assert_eq!((out, count), (vec![b' '; 20], 1));
        let (out, _) = passed_by(Change::Guard("one", ""), &[b"-- guard: one |\nlast\0next"]);
        assert!(out.ends_with(b" \0next"));
    }

    #[test]
    fn only_a_text_of_the_same_length_can_be_put_in() {
        assert!(Alteration::new("short text", "a longer text").is_none());
        assert!(Alteration::new("abc", "x").is_none());
    }
}
