//! Tools of other rdma-core releases, unmodified and under their own loader, on simulated cards.

mod common;
#[path = "../../host-driver/provider/tests/releases/found.rs"]
mod found;

use common::*;
use std::path::Path;

fn quote(line: &[String]) -> String {
    line.iter()
        .map(|w| format!("'{}'", w.replace('\'', r"'\''")))
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn releases_run_their_own_tools() {
    for r in found::releases() {
        let lab = Lab::new();
        let own = |name: &str| r.any(&Path::new("usr/bin").join(name));
        let devinfo = own("ibv_devinfo");
        let words: Vec<&str> = ["run", "--timeout", "30", "--"]
            .into_iter()
            .chain(devinfo.iter().map(String::as_str))
            .chain(["-v"])
            .collect();
        let o = lab.metaroce(&words).wait(45).ok();
        for text in ["metaroce0", "PORT_ACTIVE", "::ffff:10.0.0.2, RoCE v2"] {
            assert!(
                o.out.contains(text),
                "{}: no {text:?} in\n{}",
                r.name,
                o.out
            );
        }
        // From 62 on the tool asks for the rate of the port, too.
        let speed = "active_speed:\t\t25.0 Gbps";
        assert!(o.out.contains(speed), "{}: {}", r.name, o.out);

        for (tool, options, says) in [
            ("ibv_rc_pingpong", "-g 1 -n 30 -c", "30 iters"),
            (
                "ibv_rc_pingpong",
                "-g 2 -n 30 -c -e -m 4096 -s 10000",
                "30 iters",
            ),
            ("ibv_ud_pingpong", "-g 1 -n 30 -c -s 1024", "30 iters"),
            ("ib_write_bw", "-n 20 -s 65536", "65536"),
        ] {
            // Release 59 is built without perftest.
            let line = own(tool);
            if !line.last().is_some_and(|p| Path::new(p).is_file()) {
                println!("skipped: {} has no {tool}", r.name);
                continue;
            }
            let p = free_port();
            let side = |d| format!("{} -d {d} -p {p} {options}", quote(&line));
            let client = side("metaroce1") + " 127.0.0.1";
            let script = pair(&side("metaroce0"), &client, p);
            let words = ["run", "--timeout", "60", "--", "sh", "-c", &script];
            let o = lab.metaroce(&words).wait(75).ok();
            let n = o.out.matches(says).count();
            assert!(n >= 2, "{}: {tool}: {}", r.name, o.out);
            assert!(!o.out.contains("invalid data"), "{}: {}", r.name, o.out);
            assert_clean(&lab.result());
            println!("{} {tool} {options}: {:.1} s", r.name, o.took.as_secs_f64());
        }
        // Those with the connection manager; they have no TCP port to wait for.
        for (tool, server, client) in [
            (
                "rping",
                "-s -a 10.0.0.1 -C 10 -v -V",
                "-c -a 10.0.0.1 -C 10 -v -V",
            ),
            ("udaddy", "-b 10.0.0.1", "-s 10.0.0.1"),
            ("ib_write_bw", "-R -n 20", "-R -n 20 10.0.0.1"),
        ] {
            let line = own(tool);
            if !line.last().is_some_and(|p| Path::new(p).is_file()) {
                println!("skipped: {} has no {tool}", r.name);
                continue;
            }
            let l = quote(&line);
            let script = format!(
                "{l} {server} & s=$!; n=0; until {l} {client}; do n=$((n+1)); [ $n -lt 20 ] || exit 99; sleep 0.2; done; wait $s"
            );
            let words = ["run", "--timeout", "60", "--", "sh", "-c", &script];
            let o = lab.metaroce(&words).wait(75).ok();
            assert_clean(&lab.result());
            println!("{} {tool} {client}: {:.1} s", r.name, o.took.as_secs_f64());
        }
        lab.assert_tidy();
    }
}
