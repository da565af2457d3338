//! Any bytes: no panic, and what decodes re-encodes to the same bytes before pad and ICRC.
#![no_main]

use libfuzzer_sys::fuzz_target;
use metaroce_protocol::{Frame, FrameRepr};

fuzz_target!(|data: &[u8]| {
    if let Ok(f) = Frame::new_without_icrc(data) {
        let repr = FrameRepr::parse(&f);
        let mut out = vec![0; data.len()];
        let n = repr.emit(f.payload(), &mut out).unwrap();
        let same = n - 4 - f.roce.pad();
        assert_eq!(out[..same], data[..same]);
    }
});
