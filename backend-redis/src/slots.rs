//! Hash slots of a Redis Cluster.

/// The slot of a key whose hash tag, or all of it, is `text`: CRC16 in the XMODEM variant, as the cluster
/// specification has it, of 16,384 slots.
pub(crate) fn slot_of(text: &str) -> u16 {
    let crc = text.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % 16_384
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_check_value_of_the_specification() {
        assert_eq!(super::slot_of("123456789"), 0x31c3);
        assert_eq!(super::slot_of("foo"), 12_182);
    }
}
