//! A lost packet is asked for and read again within the card's limits, wherever it was in its message.

use metaroce_hdl_spec::wqe::op;
use metaroce_tb::recovery::recovery;

#[test]
fn nak_and_resend() {
    for (name, what) in [("WRITE", op::WRITE), ("SEND", op::SEND), ("READ", op::READ)] {
        for lost in [0, 5, 14] {
            let r = recovery(what, 16, lost);
            println!("{name}, packet {lost}: {r:?}");
            assert!(r.gap_to_nak <= 100, "{name}, packet {lost}: {r:?}");
            assert!(r.nak_to_read <= 200, "{name}, packet {lost}: {r:?}");
        }
    }
}
