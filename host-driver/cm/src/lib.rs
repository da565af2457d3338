//! Connection manager of the simulated cards: what `/dev/infiniband/rdma_cm` answers.
//!
//! librdmacm writes commands to that device and polls it for events; a kernel's connection manager behind it exchanges
//! management datagrams with the other host. Here the launch shim hands the commands to this one, which serves all
//! programs of one set of cards and so knows both ends of each connection: it carries private data, QP numbers and PSNs
//! from one to the other itself. Nothing of that is on the simulated wire; what the connected QPs send is.
//!
//! | file | what |
//! |---|---|
//! | `abi` | layouts of the commands and answers (the public header `rdma/rdma_user_cm.h`, ABI 4) |
//! | `addr` | socket addresses, and which card has which |
//! | `query` | answers about an identifier: addresses, route, path, QP attributes |
//! | `state` | identifiers, their states and events |
//! | `ports` | binding, resolving, listening |
//! | `commands` | each command: its arguments, checked, and what it does |
//! | `server` | the socket that the launch shim talks to |
//!
//! What a command does and which error it has is the kernel's behaviour as far as programs see it.
mod abi;
mod addr;
mod commands;
mod ports;
mod query;
mod server;
mod state;

pub use server::{Cm, SOCKET};

/// errno of a refused command.
pub type Errno = i32;
