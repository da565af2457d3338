//! Launch shim: a preload library that shows a user-space card to unmodified verbs programs.
//!
//! libibverbs looks for devices in RDMA netlink first and uses sysfs only when netlink *fails*, opens
//! `/dev/infiniband/uverbsN`, and creates a completion channel by writing a command to that device. None of
//! this exists for a simulated card, and none of it may need root. So this library, set in `LD_PRELOAD` by
//! `metaroce run|shell|env`, does six things and nothing else:
//!
//! | file | what |
//! |---|---|
//! | `paths`, `open`, `files`, `stat`, `real` | rewrites four path prefixes into the tree at `METAROCE_ROOT` |
//! | `netlink` | refuses RDMA netlink, so that libibverbs falls back to sysfs |
//! | `channel` | answers the "create completion channel" command on our own uverbs descriptors |
//! | `cm` | hands what is written to `/dev/infiniband/rdma_cm` to the connection manager beside the cards |
//! | `config` | sets `RDMAV_DRIVERS` and `METAROCE_SOCK` if they are unset |
//! | `clock` | only with `METAROCE_CARD_TIME`: the program's clocks show card time |
//!
//! Without `METAROCE_ROOT` every call is passed on unchanged.
//!
//! What it cannot reach: static and setuid programs, `RTLD_DEEPBIND`, raw `syscall()`, paths given relative to a
//! directory descriptor, `glob`, `nftw`, inotify and a listing of `/sys/class` itself. Where
//! the host has an `rdma_cm` of its own, programs see ours instead.
//!
//! The crate is `no_std` by rule, not by need: std calls `open64`, `stat64` and `write` through the symbols defined
//! here, so a hook that used std could call itself. std is linked only for its panic runtime.
#![no_std]
#![cfg_attr(test, allow(dead_code))]
// Every function here is a C symbol whose contract is that of the libc function of the same name.
#![allow(clippy::missing_safety_doc)]
extern crate std as _panic_runtime;

mod channel;
#[cfg(target_arch = "x86_64")]
mod clock;
mod cm;
mod config;
mod files;
mod netlink;
mod next;
mod open;
mod paths;
mod real;
mod stat;
