//! Every verbs operation: done on the card, left to libibverbs, or answered with EOPNOTSUPP and why. `docs/verbs.md` has the same table, and
//! a test keeps the two equal.
use crate::layout::Table;
use crate::verbs::{ah, cq, cq_ex, device, event, mr, mw, pd, post, qp, qp_ex, ring, srq};

pub enum Support {
    /// The function's address.
    Card(fn() -> usize),
    /// libibverbs' own answer stays, and it is this.
    Own(&'static str),
    /// libibverbs' own answer stays: EOPNOTSUPP (or nothing, for calls without a result).
    No(&'static str),
}

macro_rules! ops {
    ($($name:ident: $support:tt $what:tt;)*) => {
        pub const OPS: &[(&str, Support)] = &[$((stringify!($name), ops!(@ $support $what))),*];
    };
    (@ card ($f:path)) => { Support::Card(|| $f as *const () as usize) };
    (@ own $what:literal) => { Support::Own($what) };
    (@ no $why:literal) => { Support::No($why) };
}

ops! {
    advise_mr: no "memory is not paged on demand";
    alloc_buf: own "host memory";
    alloc_dm: no "no device memory";
    alloc_dmah: no "no DMA handles: the card sends no processing hints";
    alloc_mw: card (mw::alloc_mw);
    alloc_null_mr: no "no null region";
    alloc_parent_domain: card (pd::alloc_parent_domain);
    alloc_pd: card (pd::alloc_pd);
    alloc_td: card (pd::alloc_td);
    async_event: card (event::async_event);
    attach_counters_point_flow: no "no flow counters";
    attach_mcast: no "no multicast";
    bind_mw: card (mw::bind_mw);
    close_xrcd: no "no XRC";
    cq_event: card (event::cq_event);
    create_ah: card (ah::create_ah);
    create_comp_cntr: no "no completion counters";
    create_counters: no "no verbs counters; the card's counters are in the metaroce tool";
    create_cq: card (cq::create_cq);
    create_cq_ex: card (cq_ex::create_cq_ex);
    create_flow: no "no flow steering";
    create_flow_action_esp: no "no flow steering";
    create_qp: card (qp::create_qp);
    create_qp_ex: card (qp_ex::create_qp_ex);
    create_rwq_ind_table: no "no receive-side scaling";
    create_srq: card (srq::create_srq);
    create_srq_ex: card (srq::create_srq_ex);
    create_wq: no "no receive-side scaling";
    dealloc_dmah: no "no DMA handles";
    dealloc_mw: card (mw::dealloc_mw);
    dealloc_pd: card (pd::dealloc_pd);
    dealloc_td: card (pd::dealloc_td);
    dereg_mr: card (mr::dereg_mr);
    destroy_ah: card (ah::destroy_ah);
    destroy_comp_cntr: no "no completion counters";
    destroy_counters: no "no verbs counters";
    destroy_cq: card (cq::destroy_cq);
    destroy_flow: no "no flow steering";
    destroy_flow_action: no "no flow steering";
    destroy_qp: card (qp::destroy_qp);
    destroy_rwq_ind_table: no "no receive-side scaling";
    destroy_srq: card (srq::destroy_srq);
    destroy_wq: no "no receive-side scaling";
    detach_mcast: no "no multicast";
    dm_export_dmabuf_fd: no "no device memory";
    free_buf: own "host memory";
    free_context: card (device::free_context);
    free_dm: no "no device memory";
    get_srq_num: card (srq::get_srq_num);
    import_dm: no "objects are not shared between processes";
    import_mr: no "objects are not shared between processes";
    import_pd: no "objects are not shared between processes";
    inc_comp_cntr: no "no completion counters";
    inc_err_comp_cntr: no "no completion counters";
    modify_cq: no "no completion moderation";
    modify_flow_action_esp: no "no flow steering";
    modify_qp: card (qp::modify_qp);
    modify_qp_rate_limit: no "no rate limit per QP; congestion control sets rates";
    modify_srq: card (srq::modify_srq);
    modify_wq: no "no receive-side scaling";
    open_qp: no "no XRC";
    open_xrcd: no "no XRC";
    poll_cq: card (cq::poll_cq);
    post_recv: card (post::post_recv);
    post_send: card (post::post_send);
    post_srq_ops: no "no tag matching";
    post_srq_recv: card (srq::post_srq_recv);
    qp_attach_comp_cntr: no "no completion counters";
    query_comp_cntr_caps: no "no completion counters";
    query_device_ex: card (device::query_device_ex);
    query_ece: no "no enhanced connection establishment";
    query_port: card (device::query_port);
    query_port_speed: card (device::query_port_speed);
    query_qp: card (qp::query_qp);
    query_qp_data_in_order: own "answers 0: data of a message may be placed out of order";
    query_rt_values: no "no host-readable clock";
    query_srq: card (srq::query_srq);
    read_comp_cntr: no "no completion counters";
    read_counters: no "no verbs counters";
    read_err_comp_cntr: no "no completion counters";
    reg_dm_mr: no "no device memory";
    reg_dmabuf_mr: no "no dma-buf: the simulator reaches process memory only";
    reg_mr: card (mr::reg_mr);
    reg_mr_ex: card (mr::reg_mr_ex);
    req_notify_cq: card (cq::req_notify_cq);
    rereg_mr: card (mr::rereg_mr);
    resize_cq: card (ring::resize_cq);
    set_comp_cntr: no "no completion counters";
    set_ece: no "no enhanced connection establishment";
    set_err_comp_cntr: no "no completion counters";
    unimport_dm: no "objects are not shared between processes";
    unimport_mr: no "objects are not shared between processes";
    unimport_pd: no "objects are not shared between processes";
}

/// The operations table in the layout of the running library. 0 = keep the library's own answer.
pub fn table(layout: &Table) -> Vec<usize> {
    let address = |name: &str| {
        OPS.iter()
            .find(|(n, _)| *n == name)
            .map_or(0, |(_, s)| match s {
                Support::Card(f) => f(),
                Support::Own(_) | Support::No(_) => 0,
            })
    };
    layout.names().map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{OPERATIONS, TABLES};

    #[test]
    fn every_operation_has_an_answer() {
        let names: Vec<_> = OPS.iter().map(|(n, _)| *n).collect();
        assert_eq!(names, OPERATIONS.map(|(n, _)| n));
    }

    #[test]
    fn tables_put_functions_at_their_names() {
        for t in TABLES {
            let ops = table(t);
            assert_eq!(ops.len(), t.len());
            let at = t.names().position(|n| n == "poll_cq").unwrap();
            assert_eq!(ops[at], cq::poll_cq as *const () as usize);
        }
        assert_eq!(
            table(&TABLES[2])[53],
            cq::poll_cq as *const () as usize,
            "offset 424"
        );
    }

    #[test]
    fn the_documented_table_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/verbs.md");
        let doc = std::fs::read_to_string(path).expect("docs/verbs.md");
        let rows: Vec<(String, String)> = doc
            .lines()
            .filter_map(|l| l.strip_prefix("| `"))
            .filter_map(|l| l.split_once("` | "))
            .map(|(name, rest)| {
                (
                    name.to_string(),
                    rest.trim_end_matches('|').trim().to_string(),
                )
            })
            .collect();
        let want: Vec<(String, String)> = OPS
            .iter()
            .map(|(n, s)| {
                let answer = match s {
                    Support::Card(_) => "card |".to_string(),
                    Support::Own(what) => format!("libibverbs | {what}"),
                    Support::No(why) => format!("EOPNOTSUPP | {why}"),
                };
                (n.to_string(), answer)
            })
            .collect();
        for (have, want) in rows.iter().zip(&want) {
            assert_eq!(
                have, want,
                "docs/verbs.md differs from the operations table"
            );
        }
        assert_eq!(rows.len(), want.len());
    }
}
