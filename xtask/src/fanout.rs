//! Copies of drivers with many sinks in a netlist of yosys, each for a group of sinks that lie together.
//!
//! yosys drives the 600 clock enables of a wide register with the one LUT that also feeds the next state, and neither it nor nextpnr makes copies: the placer puts
//! that LUT in the middle of its sinks, some forty tiles from the state. So LUTs (also pairs behind a PFUMX) and flip-flops with more than [`MANY`] sinks are
//! copied: the logic behind a driver keeps it, each [`GROUP`] of clock enables, resets, write enables and addresses gets a copy.

use anyhow::{bail, ensure, Context, Result};
use serde_json::{json, Value};
use std::collections::{HashMap, HashSet, VecDeque};

/// A net with more sinks gets copies of its driver.
const MANY: usize = 48;
/// Sinks of a copy, about.
const GROUP: usize = 64;
/// Inputs of copies get more sinks and are looked at again, so often at most.
const AGAIN: usize = 3000;

/// A sink: cell, port, bit of the port.
type Sink = (usize, String, usize);

struct Net {
    names: Vec<String>,
    cells: Vec<Value>,
    driver: HashMap<u64, (usize, String)>,
    sinks: HashMap<u64, Vec<Sink>>,
    /// Nets in the order in which their first sink stands.
    order: Vec<u64>,
    last_bit: u64,
    copies: usize,
    /// Of each cell, the one that it is a copy of, or itself.
    origin: Vec<usize>,
    /// Each new net, and the one that it is a copy of.
    new: Vec<(u64, u64)>,
}

fn kind(cell: &Value) -> &str {
    cell["type"].as_str().unwrap_or("")
}

fn ports(cell: &Value) -> impl Iterator<Item = (&String, bool, &Vec<Value>)> {
    let directions = &cell["port_directions"];
    cell["connections"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(move |(p, bits)| Some((p, directions[p] == "output", bits.as_array()?)))
}

/// Where a sink stands: its block, and the numbers in its name.
fn place(name: &str) -> (String, Vec<u128>) {
    let kinds = ["_TRELLIS", "_LUT4", "_PFUMX", "_L6MUX", "_CCU2"];
    let end = kinds.iter().filter_map(|k| name.find(k)).min();
    let numbers = name
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|d| d.parse().ok())
        .collect();
    (name[..end.unwrap_or(name.len())].to_string(), numbers)
}

impl Net {
    fn of(cells: serde_json::Map<String, Value>) -> Self {
        let mut n = Net {
            names: vec![],
            cells: vec![],
            driver: HashMap::new(),
            sinks: HashMap::new(),
            order: vec![],
            last_bit: 0,
            copies: 0,
            origin: vec![],
            new: vec![],
        };
        for (name, cell) in cells {
            let id = n.cells.len();
            for (p, out, bits) in ports(&cell) {
                for (i, x) in bits.iter().enumerate() {
                    let Some(x) = x.as_u64() else { continue };
                    n.last_bit = n.last_bit.max(x);
                    if out {
                        n.driver.insert(x, (id, p.clone()));
                    } else {
                        let s = n.sinks.entry(x).or_default();
                        if s.is_empty() {
                            n.order.push(x);
                        }
                        s.push((id, p.clone(), i));
                    }
                }
            }
            n.origin.push(id);
            n.names.push(name);
            n.cells.push(cell);
        }
        n
    }

    /// An enable, a reset, or an address: not the next step of a calculation.
    fn far(&self, (cell, port, _): &Sink) -> bool {
        match kind(&self.cells[*cell]) {
            "TRELLIS_FF" => port == "CE" || port == "LSR",
            "TRELLIS_DPR16X4" => ["WRE", "WAD", "RAD"].contains(&port.as_str()),
            k => k == "DP16KD",
        }
    }

    fn fan_out(&self, x: u64) -> usize {
        self.sinks.get(&x).map_or(0, Vec::len)
    }

    fn next_bit(&mut self, of: u64) -> u64 {
        self.last_bit += 1;
        self.new.push((self.last_bit, of));
        self.last_bit
    }

    fn set(&mut self, (cell, port, bit): &Sink, to: u64) {
        self.cells[*cell]["connections"][port][*bit] = json!(to);
    }

    /// A copy of `cell` that drives `to` where it drove `from`.
    fn copy(&mut self, cell: usize, port: &str, from: u64, to: u64) -> usize {
        self.copies += 1;
        let id = self.cells.len();
        let mut c = self.cells[cell].clone();
        for b in c["connections"][port].as_array_mut().into_iter().flatten() {
            if b.as_u64() == Some(from) {
                *b = json!(to);
            }
        }
        for (p, out, bits) in ports(&c) {
            for (i, x) in bits.iter().enumerate() {
                if let (false, Some(x)) = (out, x.as_u64()) {
                    self.sinks.entry(x).or_default().push((id, p.clone(), i));
                }
            }
        }
        self.names
            .push(format!("{}$c{}", self.names[cell], self.copies));
        self.origin.push(self.origin[cell]);
        self.cells.push(c);
        self.driver.insert(to, (id, port.to_string()));
        id
    }

    /// Sinks of `x` in groups; the first keeps the driver.
    fn groups(&self, x: u64) -> Vec<Vec<Sink>> {
        let (far, near): (Vec<Sink>, Vec<Sink>) =
            self.sinks[&x].iter().cloned().partition(|s| self.far(s));
        let mut groups = vec![];
        for (mut l, is_near) in [(near, true), (far, false)] {
            if l.is_empty() {
                continue;
            }
            l.sort_by_cached_key(|s| place(&self.names[s.0]));
            let n = (l.len() as f64 / GROUP as f64).round_ties_even().max(1.0) as usize;
            let n = if is_near && l.len() <= MANY { 1 } else { n };
            groups.extend(l.chunks(l.len().div_ceil(n)).map(<[Sink]>::to_vec));
        }
        groups
    }

    fn split(&mut self) -> Result<()> {
        let clocks: HashSet<u64> = self
            .cells
            .iter()
            .filter(|c| kind(c) == "TRELLIS_FF")
            .filter_map(|c| c["connections"]["CLK"][0].as_u64())
            .collect();
        let many = |n: &Net, x: u64| n.fan_out(x) > MANY && n.driver.contains_key(&x);
        let mut todo: Vec<u64> = self
            .order
            .iter()
            .copied()
            .filter(|x| many(self, *x))
            .collect();
        todo.sort_by_key(|x| std::cmp::Reverse(self.fan_out(*x)));
        let mut todo = VecDeque::from(todo);
        let mut again = 0;
        while let Some(x) = todo.pop_front() {
            let (d, port) = self.driver[&x].clone();
            let k = kind(&self.cells[d]).to_string();
            let fit = ["LUT4", "TRELLIS_FF", "PFUMX"].contains(&k.as_str());
            if clocks.contains(&x) || !fit || self.fan_out(x) <= MANY {
                continue;
            }
            let groups = self.groups(x);
            for g in groups.iter().skip(1) {
                let new = self.next_bit(x);
                let c = self.copy(d, &port, x, new);
                if k == "PFUMX" {
                    self.copy_luts(c)?;
                }
                for s in g {
                    self.set(s, new);
                }
                self.sinks.insert(new, g.clone());
            }
            if groups.len() > 1 {
                let gone: HashSet<&Sink> = groups[1..].iter().flatten().collect();
                self.sinks
                    .entry(x)
                    .or_default()
                    .retain(|s| !gone.contains(s));
                let inputs: Vec<u64> = ports(&self.cells[d])
                    .filter(|(_, out, _)| !out)
                    .flat_map(|(_, _, bits)| bits.iter().filter_map(Value::as_u64))
                    .collect();
                for y in inputs {
                    if many(self, y) && y != x && !todo.contains(&y) && again < AGAIN {
                        todo.push_back(y);
                        again += 1;
                    }
                }
            }
        }
        Ok(())
    }

    /// The two LUTs in front of a PFUMX belong to it alone.
    fn copy_luts(&mut self, mux: usize) -> Result<()> {
        for q in ["ALUT", "BLUT"] {
            let y = self.cells[mux]["connections"][q][0].as_u64();
            let y = y.context("a PFUMX without LUTs")?;
            let (lut, port) = self.driver.get(&y).context("no driver")?.clone();
            if kind(&self.cells[lut]) != "LUT4" {
                bail!("{} does not come from a LUT", self.names[mux]);
            }
            self.sinks.entry(y).or_default().retain(|s| s.0 != mux);
            let new = self.next_bit(y);
            self.copy(lut, &port, y, new);
            self.set(&(mux, q.to_string(), 0), new);
            self.sinks.insert(new, vec![(mux, q.to_string(), 0)]);
        }
        Ok(())
    }

    /// Nothing but copies: with each new net taken for the one that it copies, every cell has the connections that it had, a copy those of its original.
    fn check(&self, before: &[Value]) -> Result<()> {
        let of: HashMap<u64, u64> = self.new.iter().copied().collect();
        for ((name, cell), origin) in self.names.iter().zip(&self.cells).zip(&self.origin) {
            let was = &before[*origin];
            let mut now = cell["connections"].clone();
            for bits in now.as_object_mut().into_iter().flat_map(|m| m.values_mut()) {
                for b in bits.as_array_mut().into_iter().flatten() {
                    while let Some(o) = b.as_u64().and_then(|x| of.get(&x)) {
                        *b = json!(o);
                    }
                }
            }
            ensure!(now == was["connections"], "{name} has other connections");
            ensure!(
                cell["parameters"] == was["parameters"],
                "{name} is another cell"
            );
        }
        Ok(())
    }
}

/// The netlist with copies; how many there are.
pub fn split(netlist: &mut Value) -> Result<usize> {
    let modules = netlist["modules"].as_object_mut().context("no modules")?;
    let size = |m: &Value| m["cells"].as_object().map_or(0, |c| c.len());
    let top = modules.values_mut().max_by_key(|m| size(m));
    let top = top.context("no module")?;
    let cells = top["cells"].as_object().context("no cells")?.clone();
    let mut n = Net::of(cells);
    let before = n.cells.clone();
    let port_bits = top["ports"].as_object().into_iter().flatten();
    let net_bits = top["netnames"].as_object().into_iter().flatten();
    for (_, p) in port_bits.chain(net_bits) {
        for x in p["bits"].as_array().into_iter().flatten() {
            n.last_bit = n.last_bit.max(x.as_u64().unwrap_or(0));
        }
    }
    n.split()?;
    n.check(&before)?;
    for (x, _) in &n.new {
        top["netnames"][format!("fan${x}")] =
            json!({"hide_name": 0, "bits": [x], "attributes": {}});
    }
    let copies = n.copies;
    top["cells"] = Value::Object(n.names.into_iter().zip(n.cells).collect());
    Ok(copies)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A register of 200 bits whose enable is a LUT of two flip-flops, and a mux in front of 60 LUTs.
    fn netlist() -> Value {
        let mut cells = serde_json::Map::new();
        let mut cell = |name: String, kind: &str, ins: &[(&str, u64)], out: (&str, u64)| {
            let mut d = json!({out.0: "output"});
            let mut c = json!({out.0: [out.1]});
            for (p, x) in ins {
                d[p] = json!("input");
                c[p] = json!([x]);
            }
            cells.insert(
                name,
                json!({"type": kind, "parameters": {"INIT": "6"}, "port_directions": d, "connections": c}),
            );
        };
        let ff = "TRELLIS_FF";
        cell("a".into(), ff, &[("CLK", 2), ("DI", 3)], ("Q", 10));
        cell("b".into(), ff, &[("CLK", 2), ("DI", 12)], ("Q", 11));
        cell("en".into(), "LUT4", &[("A", 10), ("B", 11)], ("Z", 12));
        cell("l".into(), "LUT4", &[("A", 10)], ("Z", 13));
        cell("h".into(), "LUT4", &[("A", 11)], ("Z", 14));
        let mux = [("ALUT", 13), ("BLUT", 14), ("C0", 10)];
        cell("mux".into(), "PFUMX", &mux, ("Z", 15));
        for i in 0..200 {
            let name = format!("card.r_TRELLIS_FF_Q_{i}");
            cell(
                name,
                ff,
                &[("CLK", 2), ("CE", 12), ("DI", 11)],
                ("Q", 100 + i),
            );
        }
        for i in 0..90 {
            cell(
                format!("x_LUT4_Z_{i}"),
                "LUT4",
                &[("A", 15)],
                ("Z", 400 + i),
            );
        }
        json!({"modules": {"top": {"ports": {"si": {"bits": [3]}}, "cells": cells, "netnames": {"high": {"bits": [999]}}}}})
    }

    fn fan_outs(v: &Value) -> HashMap<u64, usize> {
        let n = Net::of(v["modules"]["top"]["cells"].as_object().unwrap().clone());
        n.sinks.iter().map(|(x, s)| (*x, s.len())).collect()
    }

    #[test]
    fn wide_enables_get_drivers_of_their_own() {
        let mut v = netlist();
        assert_eq!(fan_outs(&v)[&12], 201);
        let copies = split(&mut v).unwrap();
        let cells = v["modules"]["top"]["cells"].as_object().unwrap();
        // the flip-flop behind the LUT keeps it; 200 enables are in three groups; the mux goes with its LUTs
        assert_eq!(cells["b"]["connections"]["DI"][0], 12);
        let copies_of = |c: &str| cells.keys().filter(|k| k.starts_with(c)).count();
        assert_eq!(fan_outs(&v)[&12], 1 + copies_of("b$c"));
        assert_eq!(copies_of("en$c"), 3);
        assert_eq!(copies_of("mux$c"), 0);
        assert!(copies > 3);
        // the clock is no net of logic, and no data path is cut in more pieces than it needs
        assert!(
            fan_outs(&v).iter().all(|(x, n)| *x == 2 || *n <= 96),
            "{:?}",
            fan_outs(&v)
        );
        // new nets are really new
        assert!(cells.values().all(|c| ports(c)
            .all(|(_, out, b)| !out || b[0].as_u64() < Some(500) || b[0].as_u64() > Some(999))));
    }

    #[test]
    fn a_wrong_copy_is_caught() {
        let v = netlist();
        let cells = v["modules"]["top"]["cells"].as_object().unwrap().clone();
        let mut n = Net::of(cells);
        let before = n.cells.clone();
        n.last_bit = 1000;
        n.split().unwrap();
        n.check(&before).unwrap();
        let at = n.names.iter().position(|x| x.starts_with("en$c")).unwrap();
        n.cells[at]["connections"]["A"] = json!([11]);
        assert!(n.check(&before).is_err());
    }

    #[test]
    fn sinks_of_a_block_lie_together() {
        let mut l = [
            "card.b.q_TRELLIS_FF_Q_10",
            "card.a.q_LUT4_Z",
            "card.b.q_TRELLIS_FF_Q_9",
        ];
        l.sort_by_key(|n| place(n));
        assert_eq!(
            l,
            [
                "card.a.q_LUT4_Z",
                "card.b.q_TRELLIS_FF_Q_9",
                "card.b.q_TRELLIS_FF_Q_10"
            ]
        );
    }
}
