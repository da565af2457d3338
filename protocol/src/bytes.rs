//! Bounded big-endian access. Out of range reads give zero and writes do nothing, so that a wrong
//! offset can never become a panic; the checked views make sure that it does not happen.

pub(crate) fn array<const N: usize>(b: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    if let Some(s) = at.checked_add(N).and_then(|end| b.get(at..end)) {
        out.copy_from_slice(s);
    }
    out
}

pub(crate) fn u8_at(b: &[u8], at: usize) -> u8 {
    b.get(at).copied().unwrap_or(0)
}

pub(crate) fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(b, at))
}

pub(crate) fn u24_at(b: &[u8], at: usize) -> u32 {
    let a: [u8; 3] = array(b, at);
    u32::from(a[0]) << 16 | u32::from(a[1]) << 8 | u32::from(a[2])
}

pub(crate) fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(b, at))
}

pub(crate) fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(array(b, at))
}

/// The slice `[from, to)`, empty when out of range.
pub(crate) fn slice(b: &[u8], from: usize, to: usize) -> &[u8] {
    b.get(from..to).unwrap_or(&[])
}

pub(crate) fn put(b: &mut [u8], at: usize, v: &[u8]) {
    if let Some(d) = at.checked_add(v.len()).and_then(|end| b.get_mut(at..end)) {
        d.copy_from_slice(v);
    }
}

pub(crate) fn put_u24(b: &mut [u8], at: usize, v: u32) {
    put(b, at, &[(v >> 16) as u8, (v >> 8) as u8, v as u8]);
}
