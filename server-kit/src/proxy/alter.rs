//! What a client sends or a server answers, altered on its way: the text of a script with a guard left out,
//! or the address of another server.

/// A replacement of some bytes by as many others.
#[derive(Clone, Debug)]
pub(super) struct Alteration {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Alteration {
    /// `to` is filled up with spaces, so that lengths that were sent before stay right.
    pub(super) fn new(from: &str, to: &str) -> Option<Self> {
        let (from, mut to) = (from.as_bytes().to_vec(), to.as_bytes().to_vec());
        if from.len() <= SHORTEST || to.len() > from.len() || from == to {
            return None;
        }
        to.resize(from.len(), b' ');
        Some(Self { from, to })
    }
}

/// So much of a text at the end of what came is held back, since the rest may follow. Less is not: it
/// would hold up every message that happens to end like this.
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

    /// What was held back, where nothing followed.
    pub(super) fn let_go(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held_back)
    }

    /// What is to be sent on now, and how often something was replaced in it.
    pub(super) fn pass(&mut self, chunk: Vec<u8>) -> (Vec<u8>, u64) {
        if self.rules.is_empty() {
            return (chunk, 0);
        }
        let ended = chunk.is_empty();
        let mut bytes = std::mem::take(&mut self.held_back);
        bytes.extend(chunk);
        let mut count = 0;
        for Alteration { from, to } in self.rules {
            let mut at = 0;
            while let Some(found) = find(&bytes[at..], from) {
                at += found;
                bytes[at..at + from.len()].copy_from_slice(to);
                at += from.len();
                count += 1;
            }
        }
        if !ended {
            let tail = |rule: &Alteration| {
                let longest = (rule.from.len() - 1).min(bytes.len());
                (SHORTEST..=longest).rev().find(|length| bytes.ends_with(&rule.from[..*length]))
            };
            let kept = self.rules.iter().filter_map(tail).max().unwrap_or(0);
            self.held_back = bytes.split_off(bytes.len() - kept);
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
        let rules = [Alteration::new("if owner then", "if true then").unwrap()];
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
        // What is held back is sent when nothing follows.
        assert_eq!(passed(&[b"a if own", b""]), (b"a if own".to_vec(), 0));
        assert_eq!(passed(&[b"a if"]).0, b"a if", "too short to be held back");
    }

    #[test]
    fn only_a_text_of_the_same_length_can_be_put_in() {
        assert!(Alteration::new("short text", "a longer text").is_none());
        assert!(Alteration::new("abc", "x").is_none());
    }
}
