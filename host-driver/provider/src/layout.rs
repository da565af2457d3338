//! Which provider interface the running libibverbs has.
//!
//! The operations table (`struct verbs_context_ops`) is a sorted list of function pointers that grows by insertion,
//! *within* one symbol suffix too, so neither the suffix nor our build decides its layout. What decides is a probe:
//! `verbs_set_ops` is called once on a scratch context with a table of sentinels. It copies the table word for word
//! into the context's private part, which gives the number of entries, and copies most entries into public slots of
//! `verbs_context` and `ibv_context`, which gives their positions and what the release has put in front of
//! `verbs_context`. A library that answers otherwise than its row here is refused.
use core::ffi::c_void;

/// One known table.
#[derive(Debug)]
pub struct Table {
    /// Symbol suffix: `verbs_register_driver_<suffix>`.
    pub suffix: u32,
    /// First rdma-core release with it.
    pub since: u32,
}

/// Tables this build knows, oldest first. `docs/dependencies.md` says which of them have been run, and a test keeps its
/// table equal to this one.
pub const TABLES: &[Table] = &[
    Table::new(34, 34),
    Table::new(34, 35),
    Table::new(34, 36),
    Table::new(57, 57),
    Table::new(59, 59),
    Table::new(59, 62),
    Table::new(64, 64),
    Table::new(65, 65),
];

/// Suffixes of these tables: the names under which libibverbs may look for the provider.
pub const SUFFIXES: &[u32] = &[34, 57, 59, 64, 65];

/// The operations in table order, each with the first release that has it (34: that or an older one).
pub const OPERATIONS: [(&str, u32); 93] = [
    ("advise_mr", 34),
    ("alloc_buf", 64),
    ("alloc_dm", 34),
    ("alloc_dmah", 59),
    ("alloc_mw", 34),
    ("alloc_null_mr", 34),
    ("alloc_parent_domain", 34),
    ("alloc_pd", 34),
    ("alloc_td", 34),
    ("async_event", 34),
    ("attach_counters_point_flow", 34),
    ("attach_mcast", 34),
    ("bind_mw", 34),
    ("close_xrcd", 34),
    ("cq_event", 34),
    ("create_ah", 34),
    ("create_comp_cntr", 65),
    ("create_counters", 34),
    ("create_cq", 34),
    ("create_cq_ex", 34),
    ("create_flow", 34),
    ("create_flow_action_esp", 34),
    ("create_qp", 34),
    ("create_qp_ex", 34),
    ("create_rwq_ind_table", 34),
    ("create_srq", 34),
    ("create_srq_ex", 34),
    ("create_wq", 34),
    ("dealloc_dmah", 59),
    ("dealloc_mw", 34),
    ("dealloc_pd", 34),
    ("dealloc_td", 34),
    ("dereg_mr", 34),
    ("destroy_ah", 34),
    ("destroy_comp_cntr", 65),
    ("destroy_counters", 34),
    ("destroy_cq", 34),
    ("destroy_flow", 34),
    ("destroy_flow_action", 34),
    ("destroy_qp", 34),
    ("destroy_rwq_ind_table", 34),
    ("destroy_srq", 34),
    ("destroy_wq", 34),
    ("detach_mcast", 34),
    ("dm_export_dmabuf_fd", 62),
    ("free_buf", 64),
    ("free_context", 34),
    ("free_dm", 34),
    ("get_srq_num", 34),
    ("import_dm", 35),
    ("import_mr", 34),
    ("import_pd", 34),
    ("inc_comp_cntr", 65),
    ("inc_err_comp_cntr", 65),
    ("modify_cq", 34),
    ("modify_flow_action_esp", 34),
    ("modify_qp", 34),
    ("modify_qp_rate_limit", 34),
    ("modify_srq", 34),
    ("modify_wq", 34),
    ("open_qp", 34),
    ("open_xrcd", 34),
    ("poll_cq", 34),
    ("post_recv", 34),
    ("post_send", 34),
    ("post_srq_ops", 34),
    ("post_srq_recv", 34),
    ("qp_attach_comp_cntr", 65),
    ("query_comp_cntr_caps", 65),
    ("query_device_ex", 34),
    ("query_ece", 34),
    ("query_port", 34),
    ("query_port_speed", 62),
    ("query_qp", 34),
    ("query_qp_data_in_order", 36),
    ("query_rt_values", 34),
    ("query_srq", 34),
    ("read_comp_cntr", 65),
    ("read_counters", 34),
    ("read_err_comp_cntr", 65),
    ("reg_dm_mr", 34),
    ("reg_dmabuf_mr", 34),
    ("reg_mr", 34),
    ("reg_mr_ex", 59),
    ("req_notify_cq", 34),
    ("rereg_mr", 34),
    ("resize_cq", 34),
    ("set_comp_cntr", 65),
    ("set_ece", 34),
    ("set_err_comp_cntr", 65),
    ("unimport_dm", 35),
    ("unimport_mr", 34),
    ("unimport_pd", 34),
];

/// `struct verbs_context` of release 34 from its start (x86-64 and AArch64 alike; only the mutex inside the last member
/// differs). Later releases put members in front of it.
const VCTX_CONTEXT: usize = 320;
/// Where `ibv_context.ops` is.
const VCTX_OPS: isize = VCTX_CONTEXT as isize + 8;

/// Public slots that `verbs_set_ops` fills: operation and byte offset in `verbs_context` from where that of release 34
/// begins. Negative ones are the members that later releases put in front.
const VISIBLE: &[(&str, isize)] = &[
    ("free_buf", -48),
    ("alloc_buf", -40),
    ("dm_export_dmabuf_fd", -32),
    ("reg_mr_ex", -24),
    ("dealloc_dmah", -16),
    ("alloc_dmah", -8),
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
    ("alloc_pd", VCTX_OPS + 2 * 8),
    ("dealloc_pd", VCTX_OPS + 3 * 8),
    ("reg_mr", VCTX_OPS + 4 * 8),
    ("rereg_mr", VCTX_OPS + 5 * 8),
    ("dereg_mr", VCTX_OPS + 6 * 8),
    ("alloc_mw", VCTX_OPS + 7 * 8),
    ("bind_mw", VCTX_OPS + 8 * 8),
    ("dealloc_mw", VCTX_OPS + 9 * 8),
    ("create_cq", VCTX_OPS + 10 * 8),
    ("poll_cq", VCTX_OPS + 11 * 8),
    ("req_notify_cq", VCTX_OPS + 12 * 8),
    ("cq_event", VCTX_OPS + 13 * 8),
    ("resize_cq", VCTX_OPS + 14 * 8),
    ("destroy_cq", VCTX_OPS + 15 * 8),
    ("create_srq", VCTX_OPS + 16 * 8),
    ("modify_srq", VCTX_OPS + 17 * 8),
    ("query_srq", VCTX_OPS + 18 * 8),
    ("destroy_srq", VCTX_OPS + 19 * 8),
    ("post_srq_recv", VCTX_OPS + 20 * 8),
    ("create_qp", VCTX_OPS + 21 * 8),
    ("query_qp", VCTX_OPS + 22 * 8),
    ("modify_qp", VCTX_OPS + 23 * 8),
    ("destroy_qp", VCTX_OPS + 24 * 8),
    ("post_send", VCTX_OPS + 25 * 8),
    ("post_recv", VCTX_OPS + 26 * 8),
    ("create_ah", VCTX_OPS + 27 * 8),
    ("destroy_ah", VCTX_OPS + 28 * 8),
    ("attach_mcast", VCTX_OPS + 29 * 8),
    ("detach_mcast", VCTX_OPS + 30 * 8),
    ("async_event", VCTX_OPS + 31 * 8),
];

impl Table {
    const fn new(suffix: u32, since: u32) -> Table {
        Table { suffix, since }
    }
    /// The operations of this table, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        OPERATIONS
            .into_iter()
            .filter(|(_, since)| *since <= self.since)
            .map(|(name, _)| name)
    }
    pub fn len(&self) -> usize {
        self.names().count()
    }
    pub fn is_empty(&self) -> bool {
        false
    }
    /// Bytes in front of what release 34 has as `verbs_context`.
    fn front(&self) -> usize {
        let new = |name| VISIBLE.iter().any(|&(n, at)| n == name && at < 0);
        self.names().filter(|&n| new(n)).count() * size_of::<usize>()
    }
    /// Where `ibv_context` is in `verbs_context`.
    pub fn context_at(&self) -> usize {
        VCTX_CONTEXT + self.front()
    }
}

/// The releases of [`TABLES`], for messages.
pub fn known() -> String {
    let since = |t: Option<&Table>| t.map_or(0, |t| t.since);
    format!("{} to {}", since(TABLES.first()), since(TABLES.last()))
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
    // The pointer to the private part is somewhere behind the members that the release has put in front: all words are
    // that pointer, so a release with more of them than we know is refused, not crashed.
    let mut context = vec![private.as_mut_ptr() as usize; 512].into_boxed_slice();
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
            let word = (table.front() as isize + offset) as usize / size_of::<usize>();
            (self.context[word] != sentinel(at)).then_some(name)
        })
    }
}

/// The row for a library with this suffix and probe, or why there is none.
pub fn choose(suffix: u32, probe: &Probe) -> Result<&'static Table, String> {
    let mut why = format!(
        "its operations table has {} entries, which matches no known release with provider interface {suffix}",
        probe.entries
    );
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
    fn tables_are_sorted_and_sizes_are_the_known_ones() {
        assert!(OPERATIONS.windows(2).all(|w| w[0].0 < w[1].0));
        let sizes: Vec<_> = TABLES.iter().map(Table::len).collect();
        assert_eq!(sizes, [73, 75, 76, 76, 79, 81, 83, 93]);
        let contexts: Vec<_> = TABLES.iter().map(Table::context_at).collect();
        assert_eq!(contexts, [320, 320, 320, 320, 344, 352, 368, 368]);
        let mut suffixes: Vec<_> = TABLES.iter().map(|t| t.suffix).collect();
        suffixes.dedup();
        assert_eq!(suffixes, SUFFIXES);
        assert_eq!(known(), "34 to 65");
    }

    #[test]
    fn the_documented_table_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/dependencies.md");
        let doc = std::fs::read_to_string(path).unwrap();
        let (_, section) = doc.split_once("## rdma-core releases").unwrap();
        let number = |cell: &str| {
            cell.split_whitespace()
                .next()
                .map_or(0, |w| w.trim_end_matches(',').parse().unwrap())
        };
        let rows: Vec<[usize; 4]> = section
            .lines()
            .filter(|l| {
                l.strip_prefix("| ")
                    .is_some_and(|l| l.starts_with(|c: char| c.is_ascii_digit()))
            })
            .map(|l| {
                let cells: Vec<_> = l.split('|').collect();
                [1, 2, 3, 4].map(|i| number(cells[i]))
            })
            .collect();
        let want: Vec<_> = TABLES
            .iter()
            .map(|t| [t.since as usize, t.suffix as usize, t.len(), t.front() / 8])
            .collect();
        assert_eq!(rows, want);
        let seen = VISIBLE.len();
        assert!(section.contains(&format!("where {seen} of the {}", OPERATIONS.len())));
    }

    #[test]
    fn members_in_front_are_a_row_without_gaps() {
        for t in TABLES {
            let mut front: Vec<_> = VISIBLE
                .iter()
                .filter(|(n, at)| *at < 0 && t.names().any(|m| m == *n))
                .map(|(_, at)| -at as usize)
                .collect();
            front.sort_unstable();
            let want: Vec<_> = (1..=t.front() / 8).map(|i| i * 8).collect();
            assert_eq!(front, want, "since {}", t.since);
        }
    }

    /// Where release 34 has the pointer to the private part.
    const VCTX_PRIV: usize = 208;

    /// What a stand-in library has: its table and how many bytes it puts in front.
    struct Stand {
        names: Vec<&'static str>,
        front: usize,
    }

    fn stand(t: &Table) -> Stand {
        Stand {
            names: t.names().collect(),
            front: t.front(),
        }
    }

    /// Copies as the real one does.
    fn fake(library: Stand) -> Probe {
        thread_local!(static T: std::cell::RefCell<Option<Stand>> = const { std::cell::RefCell::new(None) });
        unsafe extern "C" fn set_ops(ctx: *mut c_void, table: *const usize) {
            T.with_borrow(|t| unsafe {
                let t = t.as_ref().unwrap();
                let start = (ctx as *mut u8).add(t.front);
                let private = *(start.add(VCTX_PRIV) as *mut *mut usize);
                for (i, name) in t.names.iter().enumerate() {
                    *private.add(3 + i) = *table.add(i);
                    if let Some((_, at)) = VISIBLE.iter().find(|(n, _)| n == name) {
                        *(start.offset(*at) as *mut usize) = *table.add(i);
                    }
                }
            });
        }
        T.set(Some(library));
        unsafe { probe(set_ops) }
    }

    #[test]
    fn probe_chooses_by_size_and_position() {
        for t in TABLES {
            let p = fake(stand(t));
            assert_eq!(p.entries, t.len());
            assert_eq!(choose(t.suffix, &p).unwrap().since, t.since);
        }
    }

    #[test]
    fn unknown_tables_are_refused() {
        for t in TABLES {
            let mut more = stand(t);
            more.names.push("zzz");
            let want = format!("{} entries", t.len() + 1);
            let why = choose(t.suffix, &fake(more)).unwrap_err();
            // One grows to the size of the next, but not by the next one's operation.
            assert!(why.contains(&want) || why.contains("is not where"), "{why}");
            let mut moved = stand(t);
            let at = moved.names.iter().position(|n| *n == "poll_cq").unwrap();
            moved.names.swap(at, at + 1);
            let why = choose(t.suffix, &fake(moved)).unwrap_err();
            assert!(why.contains("poll_cq"), "{why}");
            // The right table in a `verbs_context` that has more in front.
            for more in [8, 16, 48] {
                let mut shifted = stand(t);
                shifted.front += more;
                assert!(choose(t.suffix, &fake(shifted)).is_err(), "{more}");
            }
        }
        assert!(choose(66, &fake(stand(&TABLES[7]))).is_err());
    }
}
