//! From which blocks wallets were pruned, and wallets that a reorganisation reached there.
//!
//! What older versions pruned is not known in detail: a wallet that lacks numbers of transactions
//! counts as pruned from its first block up to the least depth below the tip.

pub(crate) const UP: &str = "
ALTER TABLE wallets ADD COLUMN pruned_from_height BIGINT;
ALTER TABLE wallets ADD COLUMN pruned_to_height BIGINT
    CONSTRAINT wallets_pruned_heights CHECK (
        (pruned_from_height IS NULL) = (pruned_to_height IS NULL)
        AND (pruned_from_height IS NULL OR pruned_from_height BETWEEN 0 AND pruned_to_height)
    );
ALTER TABLE wallet_rescans ADD COLUMN undone_at_us BIGINT;
UPDATE wallets SET
    pruned_from_height = (SELECT CASE WHEN wallets.birthday_height < c.first_height
            THEN wallets.birthday_height ELSE c.first_height END
        FROM chains c WHERE c.id = wallets.chain_id),
    pruned_to_height = (SELECT c.tip_height - 100 FROM chains c WHERE c.id = wallets.chain_id)
    WHERE next_tx_id - 1 > (SELECT COUNT(*) FROM transactions t WHERE t.wallet_id = wallets.id)
        AND EXISTS (SELECT c.id FROM chains c
            WHERE c.id = wallets.chain_id AND c.first_height <= c.tip_height - 100);
";

pub(crate) const DOWN: &str = "
ALTER TABLE wallet_rescans DROP COLUMN undone_at_us;
ALTER TABLE wallets DROP COLUMN pruned_to_height;
ALTER TABLE wallets DROP COLUMN pruned_from_height;
";
