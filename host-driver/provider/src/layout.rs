//! Which provider interface the running libibverbs has.
//!
//! The operations table (`struct verbs_context_ops`) is a sorted list of function pointers that grows by insertion,
//! *within* one symbol suffix too, so neither the suffix nor our build decides its layout. What decides is a probe:
//! `verbs_set_ops` is called once on a scratch context with a table of sentinels. It copies the table word for word
//! into the context's private part, which gives the number of entries, and copies many entries into public slots of
//! `ibv_context`, which gives their positions. A library that answers otherwise than its row here is refused.
use core::ffi::c_void;

/// One known table.
#[derive(Debug)]
pub struct Table {
    /// Symbol suffix: `verbs_register_driver_<suffix>`.
    pub suffix: u32,
    /// First rdma-core release with it.
    pub since: u32,
    /// Names to leave out of [`NAMES`], which lists the largest known table.
    without: &'static [&'static str],
}

/// Tables this build knows. Later suffixes (57, 59, 64, 65) get their rows when they have been run against the library.
pub const TABLES: &[Table] = &[
    Table {
        suffix: 34,
        since: 34,
        without: &["import_dm", "query_qp_data_in_order", "unimport_dm"],
    },
    Table {
        suffix: 34,
        since: 35,
        without: &["query_qp_data_in_order"],
    },
    Table {
        suffix: 34,
        since: 36,
        without: &[],
    },
];

/// Suffixes that rdma-core has used; the ones without a row in [`TABLES`] are recognised so as to be refused by name.
pub const SUFFIXES: &[u32] = &[34, 57, 59, 64, 65];

/// The operations, in table order.
pub const NAMES: [&str; 76] = [
    "advise_mr",
    "alloc_dm",
    "alloc_mw",
    "alloc_null_mr",
    "alloc_parent_domain",
    "alloc_pd",
    "alloc_td",
    "async_event",
    "attach_counters_point_flow",
    "attach_mcast",
    "bind_mw",
    "close_xrcd",
    "cq_event",
    "create_ah",
    "create_counters",
    "create_cq",
    "create_cq_ex",
    "create_flow",
    "create_flow_action_esp",
    "create_qp",
    "create_qp_ex",
    "create_rwq_ind_table",
    "create_srq",
    "create_srq_ex",
    "create_wq",
    "dealloc_mw",
    "dealloc_pd",
    "dealloc_td",
    "dereg_mr",
    "destroy_ah",
    "destroy_counters",
    "destroy_cq",
    "destroy_flow",
    "destroy_flow_action",
    "destroy_qp",
    "destroy_rwq_ind_table",
    "destroy_srq",
    "destroy_wq",
    "detach_mcast",
    "free_context",
    "free_dm",
    "get_srq_num",
    "import_dm",
    "import_mr",
    "import_pd",
    "modify_cq",
    "modify_flow_action_esp",
    "modify_qp",
    "modify_qp_rate_limit",
    "modify_srq",
    "modify_wq",
    "open_qp",
    "open_xrcd",
    "poll_cq",
    "post_recv",
    "post_send",
    "post_srq_ops",
    "post_srq_recv",
    "query_device_ex",
    "query_ece",
    "query_port",
    "query_qp",
    "query_qp_data_in_order",
    "query_rt_values",
    "query_srq",
    "read_counters",
    "reg_dm_mr",
    "reg_dmabuf_mr",
    "reg_mr",
    "req_notify_cq",
    "rereg_mr",
    "resize_cq",
    "set_ece",
    "unimport_dm",
    "unimport_mr",
    "unimport_pd",
];

/// `struct verbs_context` from its start (x86-64 and AArch64 alike; only the mutex inside the last member differs).
pub const VCTX_PRIV: usize = 208;
pub const VCTX_CONTEXT: usize = 320;
/// Where `ibv_context.ops` is from the start of `verbs_context`.
pub const VCTX_OPS: usize = VCTX_CONTEXT + 8;

/// Public slots that `verbs_set_ops` fills: (operation, byte offset in `verbs_context`).
const VISIBLE: &[(&str, usize)] = &[
    ("advise_mr", 8),
    ("alloc_null_mr", 16),
    ("read_counters", 24),
    ("attach_counters_point_flow", 32),
    ("create_counters", 40),
    ("destroy_counters", 48),
    ("reg_dm_mr", 56),
    ("alloc_dm", 64),
    ("free_dm", 72),
    ("modify_flow_action_esp", 80),
    ("destroy_flow_action", 88),
    ("create_flow_action_esp", 96),
    ("modify_qp_rate_limit", 104),
    ("alloc_parent_domain", 112),
    ("dealloc_td", 120),
    ("alloc_td", 128),
    ("modify_cq", 136),
    ("post_srq_ops", 144),
    ("destroy_rwq_ind_table", 152),
    ("create_rwq_ind_table", 160),
    ("destroy_wq", 168),
    ("modify_wq", 176),
    ("create_wq", 184),
    ("query_rt_values", 192),
    ("query_device_ex", 216),
    ("destroy_flow", 224),
    ("create_flow", 240),
    ("open_qp", 256),
    ("create_qp_ex", 264),
    ("get_srq_num", 272),
    ("create_srq_ex", 280),
    ("open_xrcd", 288),
    ("close_xrcd", 296),
    ("alloc_mw", VCTX_OPS + 7 * 8),
    ("bind_mw", VCTX_OPS + 8 * 8),
    ("dealloc_mw", VCTX_OPS + 9 * 8),
    ("poll_cq", VCTX_OPS + 11 * 8),
    ("req_notify_cq", VCTX_OPS + 12 * 8),
    ("post_srq_recv", VCTX_OPS + 20 * 8),
    ("post_send", VCTX_OPS + 25 * 8),
    ("post_recv", VCTX_OPS + 26 * 8),
];

impl Table {
    /// The operations of this table, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        NAMES.into_iter().filter(|n| !self.without.contains(n))
    }
    pub fn len(&self) -> usize {
        NAMES.len() - self.without.len()
    }
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// Sentinel of table position `i`. Never called and never dereferenced.
const fn sentinel(i: usize) -> usize {
    0x4d52_0000_0000 + i * 8
}
const SENTINELS: usize = 192;

/// What the probe saw.
pub struct Probe {
    /// Entries of the library's table; 0 if they do not form one run.
    pub entries: usize,
    /// The scratch `verbs_context` afterwards.
    context: Box<[usize]>,
}

/// Runs `verbs_set_ops` on a scratch context.
///
/// # Safety
/// `set_ops` must be libibverbs' `verbs_set_ops`.
pub unsafe fn probe(set_ops: unsafe extern "C" fn(*mut c_void, *const usize)) -> Probe {
    let table: [usize; SENTINELS] = core::array::from_fn(sentinel);
    // Both have several times the room that any release needs.
    let mut private = vec![0usize; 1024].into_boxed_slice();
    let mut context = vec![0usize; 512].into_boxed_slice();
    context[VCTX_PRIV / 8] = private.as_mut_ptr() as usize;
    unsafe { set_ops(context.as_mut_ptr() as *mut c_void, table.as_ptr()) };
    let first = private.iter().position(|&w| w == sentinel(0));
    let entries = first.map_or(0, |at| {
        let run = &private[at..];
        let n = run
            .iter()
            .enumerate()
            .take_while(|&(i, &w)| w == sentinel(i))
            .count();
        // A sentinel after the run would mean that an entry inside it was not copied.
        let stray = run[n..]
            .iter()
            .any(|&w| (sentinel(0)..sentinel(SENTINELS)).contains(&w));
        if stray || n >= SENTINELS {
            0
        } else {
            n
        }
    });
    Probe { entries, context }
}

impl Probe {
    /// The first operation that is not where `table` says, if any.
    pub fn disagrees(&self, table: &Table) -> Option<&'static str> {
        let order: Vec<_> = table.names().collect();
        VISIBLE.iter().find_map(|&(name, offset)| {
            let at = order.iter().position(|n| *n == name)?;
            (self.context[offset / 8] != sentinel(at)).then_some(name)
        })
    }
}

/// The row for a library with this suffix and probe, or why there is none.
pub fn choose(suffix: u32, probe: &Probe) -> Result<&'static Table, String> {
    let mut why = if !TABLES.iter().any(|t| t.suffix == suffix) {
        return Err(format!(
            "its provider interface {suffix} is newer than this build knows"
        ));
    } else {
        format!(
            "its operations table has {} entries, which matches no known release",
            probe.entries
        )
    };
    for t in TABLES
        .iter()
        .filter(|t| t.suffix == suffix && t.len() == probe.entries)
    {
        match probe.disagrees(t) {
            None => return Ok(t),
            Some(name) => {
                why = format!(
                    "operation '{name}' is not where it is in release {}",
                    t.since
                )
            }
        }
    }
    Err(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted_and_sizes_are_the_known_ones() {
        // `post_srq_ops` < `post_srq_recv` and so on: rdma-core keeps the table sorted, with one exception of old.
        let mut sorted = NAMES;
        sorted.sort_unstable();
        assert_eq!(sorted, NAMES);
        let sizes: Vec<_> = TABLES.iter().map(Table::len).collect();
        assert_eq!(sizes, [73, 75, 76]);
    }

    /// A stand-in library with the given table, copying as the real one does.
    fn fake(names: Vec<&'static str>) -> Probe {
        thread_local!(static T: std::cell::RefCell<Vec<&'static str>> = const { std::cell::RefCell::new(Vec::new()) });
        unsafe extern "C" fn set_ops(ctx: *mut c_void, table: *const usize) {
            T.with(|t| unsafe {
                let words = ctx as *mut usize;
                let private = *words.add(VCTX_PRIV / 8) as *mut usize;
                for (i, name) in t.borrow().iter().enumerate() {
                    *private.add(3 + i) = *table.add(i);
                    if let Some((_, at)) = VISIBLE.iter().find(|(n, _)| n == name) {
                        *words.add(at / 8) = *table.add(i);
                    }
                }
            });
        }
        T.with(|t| *t.borrow_mut() = names);
        unsafe { probe(set_ops) }
    }

    #[test]
    fn probe_chooses_by_size_and_position() {
        for t in TABLES {
            let p = fake(t.names().collect());
            assert_eq!(p.entries, t.len());
            assert_eq!(choose(34, &p).unwrap().since, t.since);
        }
    }

    #[test]
    fn unknown_tables_are_refused() {
        let mut names: Vec<_> = NAMES.to_vec();
        names.push("zzz");
        assert!(choose(34, &fake(names)).unwrap_err().contains("77 entries"));
        let mut moved: Vec<_> = NAMES.to_vec();
        moved.swap(53, 54);
        assert!(choose(34, &fake(moved)).unwrap_err().contains("poll_cq"));
        assert!(choose(59, &fake(NAMES.to_vec()))
            .unwrap_err()
            .contains("newer"));
    }
}
