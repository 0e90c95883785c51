//! A signer for wallets of tests: keys from a fixed seed, one account of native segwit on regtest.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bitcoin::{
    Amount, NetworkKind, Psbt, Witness,
    bip32::{DerivationPath, Xpriv, Xpub},
    consensus::encode::serialize_hex,
    secp256k1::{All, Secp256k1},
};

/// Keys, and what signs with them.
#[derive(Debug)]
pub struct Signer {
    curve: Secp256k1<All>,
    master: Xpriv,
}

impl Default for Signer {
    fn default() -> Self {
        Self::of_seed(7)
    }
}

impl Signer {
    /// Keys that differ with the number.
    #[must_use]
    pub fn of_seed(number: u8) -> Self {
        let master = Xpriv::new_master(NetworkKind::Test, &[number; 32]).unwrap();
        Self { curve: Secp256k1::new(), master }
    }

    /// The account as a descriptor with public keys, of payments by others and of change.
    #[must_use]
    pub fn descriptor(&self) -> String {
        format!("wpkh({}/<0;1>/*)", self.account())
    }

    /// The account's public key, with its origin.
    #[must_use]
    pub fn account(&self) -> String {
        let path: DerivationPath = "84h/1h/0h".parse().unwrap();
        let account = self.master.derive_priv(&self.curve, &path).unwrap();
        let public = Xpub::from_priv(&self.curve, &account);
        let fingerprint = self.master.fingerprint(&self.curve);
        format!("[{fingerprint}/84h/1h/0h]{public}")
    }

    /// A PSBT in base64 with the signatures of these keys.
    #[must_use]
    pub fn sign(&self, psbt: &str) -> String {
        STANDARD.encode(self.signed(Self::read(psbt)).serialize())
    }

    /// The signed transaction of a PSBT that spends the same and pays `less` less to its first output,
    /// in hexadecimal.
    #[must_use]
    pub fn rival(&self, psbt: &str, less: u64) -> String {
        let mut psbt = Self::read(psbt);
        let first = &mut psbt.unsigned_tx.output[0];
        first.value = first.value.checked_sub(Amount::from_sat(less)).unwrap();
        Self::whole(self.signed(psbt))
    }

    /// The signed transaction of a PSBT, in hexadecimal.
    #[must_use]
    pub fn raw(&self, psbt: &str) -> String {
        Self::whole(self.signed(Self::read(psbt)))
    }

    fn read(psbt: &str) -> Psbt {
        Psbt::deserialize(&STANDARD.decode(psbt).unwrap()).unwrap()
    }

    fn signed(&self, mut psbt: Psbt) -> Psbt {
        psbt.sign(&self.master, &self.curve).unwrap();
        psbt
    }

    /// Native segwit with one key: the witness is signature and key.
    fn whole(mut psbt: Psbt) -> String {
        for input in &mut psbt.inputs {
            let (key, signature) = input.partial_sigs.pop_first().unwrap();
            let parts: [&[u8]; 2] = [&signature.to_vec(), &key.to_bytes()];
            input.final_script_witness = Some(Witness::from_slice(&parts));
            input.bip32_derivation.clear();
        }
        serialize_hex(&psbt.extract_tx_unchecked_fee_rate())
    }
}
