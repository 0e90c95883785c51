//! A fee rate in a configuration file.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utxokeep_core::wallet::FeeRate;

/// Satoshi for each virtual byte, as a number with up to three decimal places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SatPerVbyte(FeeRate);

impl SatPerVbyte {
    /// A whole number of satoshi.
    #[must_use]
    pub const fn whole(units: u32) -> Self {
        Self(FeeRate::per_vbyte(units))
    }

    /// The rate.
    #[must_use]
    pub const fn rate(self) -> FeeRate {
        self.0
    }
}

impl Serialize for SatPerVbyte {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let per_kilo_weight = self.0.get();
        if per_kilo_weight.is_multiple_of(250) {
            return serializer.serialize_u32(per_kilo_weight / 250);
        }
        serializer.serialize_f64(f64::from(per_kilo_weight) / 250.0)
    }
}

impl<'de> Deserialize<'de> for SatPerVbyte {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match toml::Value::deserialize(deserializer)? {
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Float(number) => number.to_string(),
            _ => return Err(de::Error::custom("expected a number")),
        };
        let rate: crate::wallets::Rate = text.parse().map_err(de::Error::custom)?;
        Ok(Self(rate.0))
    }
}
