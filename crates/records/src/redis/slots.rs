//! Hash slots, and which server holds them.

use std::collections::BTreeMap;

use super::client::Address;

/// Hash slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// The slot of a hash tag: CRC-16 (XMODEM) modulo the number of slots.
pub(crate) fn slot_of(tag: &[u8]) -> u16 {
    let mut crc: u16 = 0;
    for &byte in tag {
        crc ^= u16::from(byte) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        }
    }
    crc % SLOTS
}

/// A server that holds slots, and its replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Primary {
    pub(crate) address: Address,
    /// All that the cluster names, also those that have failed: one of them could be elected.
    pub(crate) replicas: Vec<Address>,
    /// Number of slots; one that has none may be about to take some.
    pub(crate) slots: usize,
}

/// Servers of a cluster as one of them sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Topology {
    pub(crate) primaries: Vec<Primary>,
    /// For each slot its place in `primaries`; `u16::MAX` for none.
    owners: Vec<u16>,
}

impl Topology {
    /// Reads the answer of CLUSTER NODES of the server at `asked`.
    pub(crate) fn parse(text: &str, asked: &Address) -> Option<Self> {
        let mut primaries: BTreeMap<String, (Primary, Vec<(usize, usize)>)> = BTreeMap::new();
        let mut replicas = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [id, address, flags, master, _, _, _, _, ranges @ ..] = &words[..] else {
                return None;
            };
            let flags: Vec<&str> = flags.split(',').collect();
            if flags.contains(&"handshake") || flags.contains(&"noaddr") {
                continue;
            }
            // ip:port@port[,hostname]
            let place = address.split(['@', ',']).next()?;
            let address = Address::parse(place, &asked.host)?;
            if flags.contains(&"master") {
                let slots = ranges.iter().filter(|range| !range.starts_with('['));
                let slots = slots.map(|range| range_of(range)).collect::<Option<Vec<_>>>()?;
                let count = slots.iter().map(|(first, last)| last - first + 1).sum();
                if count == 0 && flags.contains(&"fail") {
                    continue;
                }
                let primary = Primary { address, replicas: Vec::new(), slots: count };
                primaries.insert((*id).to_owned(), (primary, slots));
            } else {
                replicas.push(((*master).to_owned(), address));
            }
        }
        for (master, address) in replicas {
            if let Some((primary, _)) = primaries.get_mut(&master) {
                primary.replicas.push(address);
            }
        }
        let mut found = Self { primaries: Vec::new(), owners: vec![u16::MAX; usize::from(SLOTS)] };
        for (primary, slots) in primaries.into_values() {
            let place = u16::try_from(found.primaries.len()).ok()?;
            found.primaries.push(primary);
            for (first, last) in slots {
                found.owners.get_mut(first..=last)?.fill(place);
            }
        }
        Some(found)
    }

    /// The server that holds a slot.
    pub(crate) fn owner(&self, slot: u16) -> Option<&Address> {
        let place = *self.owners.get(usize::from(slot))?;
        Some(&self.primaries.get(usize::from(place))?.address)
    }

    /// A slot has moved.
    pub(crate) fn move_slot(&mut self, slot: u16, to: &Address) {
        let known = self.primaries.iter().position(|primary| primary.address == *to);
        let place = known.unwrap_or_else(|| {
            let replicas = Vec::new();
            self.primaries.push(Primary { address: to.clone(), replicas, slots: 1 });
            self.primaries.len() - 1
        });
        if let (Ok(place), Some(owner)) =
            (u16::try_from(place), self.owners.get_mut(usize::from(slot)))
        {
            *owner = place;
        }
    }

    /// How many replicas a primary has; `None` when it is not known.
    pub(crate) fn replicas(&self, of: &Address) -> Option<usize> {
        let primary = self.primaries.iter().find(|primary| primary.address == *of)?;
        Some(primary.replicas.len())
    }

    /// Number of slots that nobody holds.
    pub(crate) fn uncovered(&self) -> usize {
        self.owners.iter().filter(|owner| **owner == u16::MAX).count()
    }

    /// Every server, primaries first.
    pub(crate) fn servers(&self) -> Vec<Address> {
        let primaries = self.primaries.iter().map(|primary| &primary.address);
        let replicas = self.primaries.iter().flat_map(|primary| &primary.replicas);
        primaries.chain(replicas).cloned().collect()
    }
}

fn range_of(text: &str) -> Option<(usize, usize)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && last < usize::from(SLOTS)).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(slot_of(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12_182);
    }

    #[test]
    fn servers_slots_and_replicas_are_read_from_cluster_nodes() {
        let text = "\
aa 127.0.0.1:7001@17001,host myself,master - 0 0 1 connected 0-8190 8192
bb 127.0.0.1:7002@17002 master - 0 0 2 connected 8191 8193-16383 [8192-<-aa]
cc 127.0.0.1:7003@17003 slave aa 0 0 1 connected
dd 127.0.0.1:7004@17004 slave,fail aa 0 0 1 disconnected
ee :0@0 master,noaddr - 0 0 9 disconnected
ff 127.0.0.1:7005@17005 master,fail - 0 0 3 disconnected
";
        let asked = Address { host: "127.0.0.1".to_owned(), port: 7001 };
        let mut topology = Topology::parse(text, &asked).unwrap();
        let owner = |topology: &Topology, slot| topology.owner(slot).map(|found| found.port);
        assert_eq!(owner(&topology, 0), Some(7001));
        assert_eq!(owner(&topology, 8191), Some(7002));
        assert_eq!(owner(&topology, 8192), Some(7001));
        assert_eq!(topology.uncovered(), 0);
        assert_eq!(topology.replicas(&asked), Some(2));
        assert_eq!(topology.servers().len(), 4);
        let to = Address { host: "127.0.0.1".to_owned(), port: 7009 };
        topology.move_slot(8192, &to);
        assert_eq!(owner(&topology, 8192), Some(7009));
        assert_eq!(topology.replicas(&to), Some(0));
        assert_eq!(Topology::parse("nonsense", &asked), None);
    }
}
