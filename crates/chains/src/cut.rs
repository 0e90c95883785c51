//! Where the transactions of a raw block lie in its bytes, on either chain.

use utxokeep_core::{Network, persisted::CutPiece};

use crate::{
    bitcoin::{DecodeError, tx_places},
    cardano,
};

/// Cuts the bytes of a block that was decoded before into those of each transaction and those around
/// them. The pieces cover all bytes, in order.
pub fn cut_block(raw: &[u8], network: Network) -> Result<Vec<CutPiece>, DecodeError> {
    if network.is_cardano() {
        return Ok(cardano::cut_block(raw)?);
    }
    let places = tx_places(raw)?;
    let first = places.first().map_or(raw.len(), |place| place.start);
    let mut pieces = vec![CutPiece::Frame(0..first)];
    pieces.extend((0_u32..).zip(places).map(|(tx, place)| CutPiece::Tx(tx, place)));
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockDecoder, Simulator, SimulatorConfig};

    #[test]
    fn the_pieces_of_simulated_blocks_cover_them() {
        let decoder = BlockDecoder::new(Simulator::NETWORK);
        let mut simulator = Simulator::new(SimulatorConfig::default());
        for _ in 0..30 {
            let (_, raw) = simulator.mine_next();
            let cut = cut_block(&raw, Simulator::NETWORK).unwrap();
            let txs = decoder.decode(raw.clone()).unwrap().txs.len();
            assert_eq!(cut.len(), txs + 1);
            let mut at = 0;
            for piece in cut {
                let (CutPiece::Frame(range) | CutPiece::Tx(_, range)) = piece;
                assert_eq!(range.start, at);
                at = range.end;
            }
            assert_eq!(at, raw.len());
        }
    }
}
