//! The scripts simulated outputs pay to.

use super::{config::SimulatorConfig, rng::Rng};

/// Scripts anyone may spend: empty, true, pay-to-anchor.
const OWNERLESS: [&[u8]; 3] = [&[], &[0x51], &[0x51, 0x02, 0x4e, 0x73]];

/// Keeps the scripts apart from the chain, which is drawn from the same seed.
const SALT: u64 = 0x7363_7269_7074_7300;

/// All scripts of a chain. The last few are ownerless.
#[derive(Debug)]
pub(super) struct Scripts(Vec<Vec<u8>>);

impl Scripts {
    pub(super) fn new(config: &SimulatorConfig) -> Self {
        let mut rng = Rng::new(config.seed ^ SALT);
        let owned = (0..config.addresses.max(1)).map(|_| random_script(&mut rng));
        Self(owned.chain(OWNERLESS.map(<[u8]>::to_vec)).collect())
    }

    pub(super) fn into_inner(self) -> Vec<Vec<u8>> {
        self.0
    }

    /// A script of the pool, early ones far more often.
    pub(super) fn pick(&self, rng: &mut Rng) -> &[u8] {
        &self.0[rng.skewed_place(self.0.len() - OWNERLESS.len())]
    }

    /// A script without an owner.
    pub(super) fn pick_ownerless(&self, rng: &mut Rng) -> &[u8] {
        &self.0[self.0.len() - 1 - rng.place(OWNERLESS.len())]
    }
}

fn random_script(rng: &mut Rng) -> Vec<u8> {
    let mut script = Vec::with_capacity(36);
    match rng.below(100) {
        0..40 => hashed(&mut script, rng, &[0x00, 0x14], 20, &[]),
        40..60 => hashed(&mut script, rng, &[0x51, 0x20], 32, &[]),
        60..78 => hashed(&mut script, rng, &[0x76, 0xa9, 0x14], 20, &[0x88, 0xac]),
        78..90 => hashed(&mut script, rng, &[0xa9, 0x14], 20, &[0x87]),
        90..95 => hashed(&mut script, rng, &[0x00, 0x20], 32, &[]),
        95..98 => hashed(&mut script, rng, &[0x21, 0x02], 32, &[0xac]),
        _ => {
            // Bare multisig: one of two keys.
            hashed(&mut script, rng, &[0x51, 0x21, 0x02], 32, &[]);
            hashed(&mut script, rng, &[0x21, 0x03], 32, &[0x52, 0xae]);
        }
    }
    script
}

/// Appends a script that is random but for its start and its end.
fn hashed(script: &mut Vec<u8>, rng: &mut Rng, start: &[u8], len: usize, end: &[u8]) {
    script.extend_from_slice(start);
    rng.extend(script, len);
    script.extend_from_slice(end);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn pool_has_every_form_and_depends_on_the_seed_only() {
        let config = SimulatorConfig::default();
        let scripts = Scripts::new(&config).into_inner();
        assert_eq!(scripts, Scripts::new(&config).into_inner());
        let forms: BTreeSet<_> = scripts.iter().map(|script| crate::script_type(script)).collect();
        let all =
            ["multisig", "nonstandard", "p2a", "p2pk", "p2pkh", "p2sh", "p2tr", "p2wpkh", "p2wsh"];
        assert_eq!(forms, BTreeSet::from(all));
        let other = SimulatorConfig { seed: 2, ..config };
        assert_ne!(scripts, Scripts::new(&other).into_inner());
    }
}
