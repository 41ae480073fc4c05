//! Hash slots of a Redis Cluster.

use std::sync::OnceLock;

const SLOTS: usize = 16_384;

/// The slot of a key whose hash tag, or whose whole text, is `text`: CRC16 in the XMODEM variant,
/// modulo 16,384 slots, as in the cluster specification.
pub(crate) fn slot_of(text: &str) -> u16 {
    let crc = text.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % SLOTS as u16
}

/// The slot of a key: that of the text in its first pair of braces, unless this text is empty.
pub(crate) fn slot_of_key(key: &str) -> u16 {
    let behind = key.split_once('{').map(|(_, behind)| behind);
    let tag = behind.and_then(|behind| behind.split_once('}')).map(|(tag, _)| tag);
    slot_of(tag.filter(|tag| !tag.is_empty()).unwrap_or(key))
}

/// The smallest number whose text has this slot. As a hash tag it puts a key into the slot of any
/// other key, also of one whose own tag cannot stand in braces. This must never change.
pub(crate) fn number_in(slot: u16) -> u32 {
    static NUMBERS: OnceLock<Vec<u32>> = OnceLock::new();
    let numbers = NUMBERS.get_or_init(|| {
        let (mut numbers, mut missing) = (vec![u32::MAX; SLOTS], SLOTS);
        for number in 0..u32::MAX {
            let known = &mut numbers[usize::from(slot_of(&number.to_string()))];
            if *known == u32::MAX {
                *known = number;
                missing -= 1;
            }
            if missing == 0 {
                break;
            }
        }
        numbers
    });
    numbers[usize::from(slot) % SLOTS]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_its_number() {
        for slot in 0..SLOTS as u16 {
            assert_eq!(slot_of(&number_in(slot).to_string()), slot);
        }
        // The stores of users contain these.
        assert_eq!((number_in(0), number_in(12_182)), (3_560, 43_681));
    }

    #[test]
    fn the_check_value_of_the_specification() {
        assert_eq!(slot_of("123456789"), 0x31c3);
        assert_eq!(slot_of("foo"), 12_182);
    }
}
