//! Bytes of what a store knows of its chain.

use minicbor::{Decoder, Encoder};

use super::{Assembly, ConsumerBound, ConsumerName, Heights, Said, Sighting, Witness};
use crate::{
    chain::record::{Corrupt, INFALLIBLE, array_len, end, map_len},
    types::Height,
};

const HEIGHTS: &str = "heights of the chain";

impl Witness {
    /// Its number on disk.
    const fn number(self) -> u8 {
        match self {
            Self::Block => 0,
            Self::BlockState => 1,
            Self::Persister => 2,
            Self::Log => 3,
            Self::Operator => 4,
        }
    }
}

impl Said {
    fn encode<W: minicbor::encode::Write>(
        self,
        e: &mut Encoder<W>,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.array(3)?.u64(self.mined_set)?.u64(self.assembly)?.u64(self.catching_up)?;
        Ok(())
    }

    fn decode(d: &mut Decoder<'_>) -> Result<Self, Corrupt> {
        let corrupt = |error: minicbor::decode::Error| Corrupt::new(HEIGHTS, error);
        if array_len(d, HEIGHTS)? != 3 {
            return Err(Corrupt::new(HEIGHTS, "no three numbers"));
        }
        let mined_set = d.u64().map_err(corrupt)?;
        let assembly = d.u64().map_err(corrupt)?;
        let catching_up = d.u64().map_err(corrupt)?;
        Ok(Self { mined_set, assembly, catching_up })
    }

    /// Format 2 had one bit for each claim that was made before the last start: 1 marks, 2 block
    /// assembly, 4 catching up.
    const fn of_bits(bits: u8) -> Option<Self> {
        if bits > 7 {
            return None;
        }
        let (mined_set, assembly, catching_up) = (bits & 1, bits >> 1 & 1, bits >> 2);
        Some(Self {
            mined_set: mined_set as u64,
            assembly: assembly as u64,
            catching_up: catching_up as u64,
        })
    }
}

impl Heights {
    /// CBOR with integer keys; absent fields absent.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        let mut e = Encoder::new(&mut out);
        let fields = u64::from(self.newest.is_some())
            + u64::from(self.held.is_some())
            + u64::from(self.has_persister)
            + u64::from(self.persisted.is_some())
            + u64::from(self.mined_set.is_some())
            + u64::from(self.assembly.is_some())
            + u64::from(self.is_catching_up.is_some())
            + u64::from(self.completed.is_some())
            + u64::from(self.heard_ms.is_some())
            + u64::from(self.consumer.is_some())
            + u64::from(self.said != Said::default())
            + u64::from(self.started != Said::default());
        let mut write = || -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
            e.map(fields)?;
            for (key, sighting) in [(0, self.newest), (1, self.held)] {
                if let Some(Sighting { height, by }) = sighting {
                    e.u32(key)?.array(2)?.u32(height.get())?.u8(by.number())?;
                }
            }
            if self.has_persister {
                e.u32(2)?.bool(true)?;
            }
            for (key, height) in [(3, self.persisted), (4, self.mined_set)] {
                if let Some(height) = height {
                    e.u32(key)?.u32(height.get())?;
                }
            }
            if let Some(Assembly { is_running, height }) = self.assembly {
                e.u32(5)?.array(2)?.bool(is_running)?.u32(height.get())?;
            }
            if let Some(is_catching_up) = self.is_catching_up {
                e.u32(6)?.bool(is_catching_up)?;
            }
            if let Some(completed) = self.completed {
                e.u32(7)?.u32(completed.get())?;
            }
            if let Some(heard_ms) = self.heard_ms {
                e.u32(8)?.u64(heard_ms)?;
            }
            for (key, said) in [(10, self.said), (11, self.started)] {
                if said != Said::default() {
                    said.encode(e.u32(key)?)?;
                }
            }
            if let Some(ConsumerBound { name, height }) = self.consumer {
                e.u32(12)?.array(2)?.str(name.as_str())?.u32(height.get())?;
            }
            Ok(())
        };
        write().expect(INFALLIBLE);
        out
    }

    /// Inverse of [`Heights::encode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let corrupt = |error: minicbor::decode::Error| Corrupt::new(HEIGHTS, error);
        let mut d = Decoder::new(bytes);
        let (mut found, mut is_counted) = (Self::default(), false);
        for _ in 0..map_len(&mut d, HEIGHTS)? {
            match d.u32().map_err(corrupt)? {
                0 => found.newest = Some(sighting(&mut d)?),
                1 => found.held = Some(sighting(&mut d)?),
                2 => found.has_persister = d.bool().map_err(corrupt)?,
                3 => found.persisted = Some(Height::new(d.u32().map_err(corrupt)?)),
                4 => found.mined_set = Some(Height::new(d.u32().map_err(corrupt)?)),
                5 => {
                    pair(&mut d)?;
                    let is_running = d.bool().map_err(corrupt)?;
                    let height = Height::new(d.u32().map_err(corrupt)?);
                    found.assembly = Some(Assembly { is_running, height });
                }
                6 => found.is_catching_up = Some(d.bool().map_err(corrupt)?),
                7 => found.completed = Some(Height::new(d.u32().map_err(corrupt)?)),
                8 => found.heard_ms = Some(d.u64().map_err(corrupt)?),
                9 => {
                    let earlier = Said::of_bits(d.u8().map_err(corrupt)?);
                    found.started =
                        earlier.ok_or_else(|| Corrupt::new(HEIGHTS, "unknown claims"))?;
                }
                10 => (found.said, is_counted) = (Said::decode(&mut d)?, true),
                11 => found.started = Said::decode(&mut d)?,
                12 => {
                    pair(&mut d)?;
                    let name = ConsumerName::new(d.str().map_err(corrupt)?);
                    let name =
                        name.ok_or_else(|| Corrupt::new(HEIGHTS, "no name of a consumer"))?;
                    let height = Height::new(d.u32().map_err(corrupt)?);
                    found.consumer = Some(ConsumerBound { name, height });
                }
                other => return Err(Corrupt::unknown_field(HEIGHTS, other)),
            }
        }
        end(&d, bytes, HEIGHTS)?;
        if !is_counted {
            found.said = Said {
                mined_set: found.mined_set.is_some().into(),
                assembly: found.assembly.is_some().into(),
                catching_up: found.is_catching_up.is_some().into(),
            };
        }
        Ok(found)
    }
}

fn pair(d: &mut Decoder<'_>) -> Result<(), Corrupt> {
    if array_len(d, HEIGHTS)? == 2 { Ok(()) } else { Err(Corrupt::new(HEIGHTS, "no pair")) }
}

fn sighting(d: &mut Decoder<'_>) -> Result<Sighting, Corrupt> {
    let corrupt = |error: minicbor::decode::Error| Corrupt::new(HEIGHTS, error);
    pair(d)?;
    let height = Height::new(d.u32().map_err(corrupt)?);
    let number = d.u8().map_err(corrupt)?;
    let by = Witness::ALL.into_iter().find(|witness| witness.number() == number);
    Ok(Sighting { height, by: by.ok_or_else(|| Corrupt::new(HEIGHTS, "unknown witness"))? })
}
