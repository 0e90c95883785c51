//! Tables of the ledger, as steps up and down. `docs/sql.md` describes every column.
//!
//! Keys start with what all wallets of a chain share (script, transaction id, outpoint) where a
//! block is looked up for all of them at once, and with the wallet everywhere else.

use utxokeep_sql::{Database, Migration, MigrationReport, SqlError, migrate_down, migrate_up};

use crate::{
    Micros, labels::marks, schema_archived, schema_claims, schema_descriptors, schema_events,
    schema_idempotency, schema_imported, schema_labels, schema_leases, schema_lookahead,
    schema_marks, schema_pruned, schema_rescans, schema_restored, schema_sent, schema_undone,
    schema_work, statistics,
};

/// Name of this part of the schema in the table of migrations.
pub const COMPONENT: &str = "wallet";

/// Every step, oldest first. A step that was released is never changed.
pub const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "the ledger", up: UP_1, down: DOWN_1 },
    Migration {
        version: 2,
        name: "descriptors and recent blocks",
        up: schema_descriptors::UP,
        down: schema_descriptors::DOWN,
    },
    Migration {
        version: schema_marks::VERSION,
        name: "marks, birthdays, trust by ancestors",
        up: schema_marks::UP,
        down: schema_marks::DOWN,
    },
    Migration {
        version: 4,
        name: "rescans of single wallets",
        up: schema_rescans::UP,
        down: schema_rescans::DOWN,
    },
    Migration {
        version: 5,
        name: "owners of payments, ends of leases",
        up: schema_leases::UP,
        down: schema_leases::DOWN,
    },
    Migration {
        version: 6,
        name: "labels by origin",
        up: schema_labels::UP,
        down: schema_labels::DOWN,
    },
    Migration {
        version: 7,
        name: "edges of keychains, first blocks of ledgers",
        up: schema_lookahead::UP,
        down: schema_lookahead::DOWN,
    },
    Migration {
        version: 8,
        name: "an archive of what was pruned",
        up: schema_pruned::UP,
        down: schema_pruned::DOWN,
    },
    Migration {
        version: 9,
        name: "archived wallets and keychains",
        up: schema_archived::UP,
        down: schema_archived::DOWN,
    },
    Migration {
        version: 10,
        name: "answers to requests that may be sent twice",
        up: schema_idempotency::UP,
        down: schema_idempotency::DOWN,
    },
    Migration {
        version: 11,
        name: "addresses added by hand",
        up: schema_imported::UP,
        down: schema_imported::DOWN,
    },
    Migration {
        version: 12,
        name: "claims beside facts",
        up: schema_claims::UP,
        down: schema_claims::DOWN,
    },
    Migration {
        version: 13,
        name: "work of the newest blocks",
        up: schema_work::UP,
        down: schema_work::DOWN,
    },
    Migration {
        version: 14,
        name: "wallets that were restored",
        up: schema_restored::UP,
        down: schema_restored::DOWN,
    },
    Migration {
        version: 15,
        name: "blocks that wallets were pruned from",
        up: schema_undone::UP,
        down: schema_undone::DOWN,
    },
    Migration {
        version: 16,
        name: "wallet events and webhooks",
        up: schema_events::UP,
        down: schema_events::DOWN,
    },
    Migration {
        version: 17,
        name: "transactions that were given to a node",
        up: schema_sent::UP,
        down: schema_sent::DOWN,
    },
];

/// Brings the tables to the version of this program, as far as the database was opened for that.
pub fn migrate(database: &Database, now: Micros) -> Result<MigrationReport, SqlError> {
    let report = migrate_up(database, COMPONENT, MIGRATIONS, now.get())?;
    if !database.mode().may_write() {
        return Ok(report);
    }
    if report.from < schema_marks::VERSION {
        marks::mark_by_labels(database)?;
    }
    statistics::assume(database)?;
    Ok(report)
}

/// Takes steps back, down to `version`; 0 removes all tables of the ledger.
pub fn unmigrate(database: &Database, version: u32) -> Result<MigrationReport, SqlError> {
    migrate_down(database, COMPONENT, MIGRATIONS, version)
}

const UP_1: &str = "
CREATE TABLE chains (
    id {bigserial_pk},
    chain TEXT NOT NULL,
    network TEXT NOT NULL,
    tip_height BIGINT,
    tip_hash {bytes},
    CONSTRAINT chains_name UNIQUE (chain, network),
    CONSTRAINT chains_tip_whole CHECK ((tip_height IS NULL) = (tip_hash IS NULL)),
    CONSTRAINT chains_tip_height CHECK (tip_height IS NULL OR tip_height >= 0),
    CONSTRAINT chains_tip_hash CHECK (tip_hash IS NULL OR length(tip_hash) = 32)
);

CREATE TABLE blocks (
    chain_id BIGINT NOT NULL,
    height BIGINT NOT NULL,
    hash {bytes} NOT NULL,
    time_us BIGINT NOT NULL,
    CONSTRAINT blocks_key PRIMARY KEY (chain_id, height),
    CONSTRAINT blocks_hash_once UNIQUE (chain_id, hash),
    CONSTRAINT blocks_chain FOREIGN KEY (chain_id) REFERENCES chains (id) ON DELETE RESTRICT,
    CONSTRAINT blocks_height CHECK (height >= 0),
    CONSTRAINT blocks_hash CHECK (length(hash) = 32)
);

CREATE TABLE wallets (
    id {bigserial_pk},
    chain_id BIGINT NOT NULL,
    name TEXT NOT NULL,
    created_at_us BIGINT NOT NULL,
    next_tx_id BIGINT NOT NULL,
    next_utxo_id BIGINT NOT NULL,
    next_address_id BIGINT NOT NULL,
    CONSTRAINT wallets_name_once UNIQUE (name),
    CONSTRAINT wallets_chain_key UNIQUE (chain_id, id),
    CONSTRAINT wallets_chain FOREIGN KEY (chain_id) REFERENCES chains (id) ON DELETE RESTRICT,
    CONSTRAINT wallets_name CHECK (length(name) BETWEEN 1 AND 100)
);

CREATE TABLE addresses (
    wallet_id BIGINT NOT NULL,
    id BIGINT NOT NULL,
    script {bytes} NOT NULL,
    address TEXT,
    spend_weight BIGINT NOT NULL,
    is_used SMALLINT NOT NULL,
    created_at_us BIGINT NOT NULL,
    CONSTRAINT addresses_key PRIMARY KEY (wallet_id, id),
    CONSTRAINT addresses_script_once UNIQUE (script, wallet_id),
    CONSTRAINT addresses_wallet FOREIGN KEY (wallet_id) REFERENCES wallets (id) ON DELETE RESTRICT,
    CONSTRAINT addresses_script CHECK (length(script) BETWEEN 1 AND 1000),
    CONSTRAINT addresses_spend_weight CHECK (spend_weight > 0),
    CONSTRAINT addresses_is_used CHECK (is_used IN (0, 1))
);

CREATE TABLE transactions (
    wallet_id BIGINT NOT NULL,
    id BIGINT NOT NULL,
    chain_id BIGINT NOT NULL,
    txid {bytes} NOT NULL,
    status SMALLINT NOT NULL,
    is_waiting SMALLINT NOT NULL,
    is_coinbase SMALLINT NOT NULL,
    block_height BIGINT,
    block_position BIGINT,
    received_at_us BIGINT NOT NULL,
    input_count BIGINT NOT NULL,
    owned_input_count BIGINT NOT NULL,
    output_total BIGINT NOT NULL,
    invalid_reason SMALLINT,
    invalidated_by_tx_id BIGINT,
    raw_tx {bytes},
    CONSTRAINT transactions_key PRIMARY KEY (wallet_id, id),
    CONSTRAINT transactions_txid_once UNIQUE (chain_id, txid, wallet_id),
    CONSTRAINT transactions_wallet FOREIGN KEY (chain_id, wallet_id)
        REFERENCES wallets (chain_id, id) ON DELETE RESTRICT,
    CONSTRAINT transactions_block FOREIGN KEY (chain_id, block_height)
        REFERENCES blocks (chain_id, height) ON DELETE RESTRICT,
    CONSTRAINT transactions_invalidated_by FOREIGN KEY (wallet_id, invalidated_by_tx_id)
        REFERENCES transactions (wallet_id, id) ON DELETE RESTRICT,
    CONSTRAINT transactions_txid CHECK (length(txid) = 32),
    CONSTRAINT transactions_status CHECK (status BETWEEN 0 AND 4),
    CONSTRAINT transactions_flags CHECK (is_waiting IN (0, 1) AND is_coinbase IN (0, 1)),
    CONSTRAINT transactions_block_whole CHECK ((block_height IS NULL) = (block_position IS NULL)),
    CONSTRAINT transactions_confirmed_is_published CHECK (block_height IS NULL OR status = 1),
    CONSTRAINT transactions_only_coinbase_is_orphaned CHECK (status <> 4 OR is_coinbase = 1),
    CONSTRAINT transactions_coinbase_in_block_or_orphaned CHECK (
        is_coinbase = 0
        OR (block_height IS NOT NULL AND status = 1)
        OR (block_height IS NULL AND status = 4)
    ),
    CONSTRAINT transactions_only_pending_waits CHECK (is_waiting = 0 OR status = 0),
    CONSTRAINT transactions_invalid_has_reason CHECK ((invalid_reason IS NOT NULL) = (status IN (2, 3))),
    CONSTRAINT transactions_reason CHECK (invalid_reason IS NULL OR invalid_reason BETWEEN 1 AND 4),
    CONSTRAINT transactions_replaced_by_reason CHECK (status <> 2 OR invalid_reason = 1),
    CONSTRAINT transactions_counts CHECK (
        input_count >= 0 AND owned_input_count BETWEEN 0 AND input_count AND output_total >= 0
    )
);
CREATE INDEX transactions_by_height ON transactions (wallet_id, block_height, block_position)
    WHERE block_height IS NOT NULL;
CREATE INDEX transactions_by_block ON transactions (chain_id, block_height)
    WHERE block_height IS NOT NULL;
CREATE INDEX transactions_unconfirmed ON transactions (wallet_id, id) WHERE block_height IS NULL;
CREATE INDEX transactions_by_invalidator ON transactions (wallet_id, invalidated_by_tx_id)
    WHERE invalidated_by_tx_id IS NOT NULL;

CREATE TABLE tx_inputs (
    wallet_id BIGINT NOT NULL,
    tx_id BIGINT NOT NULL,
    input_index BIGINT NOT NULL,
    prev_txid {bytes} NOT NULL,
    prev_index BIGINT NOT NULL,
    claim SMALLINT NOT NULL,
    CONSTRAINT tx_inputs_key PRIMARY KEY (wallet_id, tx_id, input_index),
    CONSTRAINT tx_inputs_tx FOREIGN KEY (wallet_id, tx_id)
        REFERENCES transactions (wallet_id, id) ON DELETE CASCADE,
    CONSTRAINT tx_inputs_outpoint CHECK (length(prev_txid) = 32 AND prev_index >= 0),
    CONSTRAINT tx_inputs_index CHECK (input_index >= 0),
    CONSTRAINT tx_inputs_claim CHECK (claim IN (0, 1, 2))
) {without_rowid};
CREATE UNIQUE INDEX tx_inputs_one_holder ON tx_inputs (prev_txid, prev_index, wallet_id)
    WHERE claim = 1;
CREATE INDEX tx_inputs_waiting ON tx_inputs (prev_txid, prev_index, wallet_id) WHERE claim = 2;

CREATE TABLE utxos (
    wallet_id BIGINT NOT NULL,
    id BIGINT NOT NULL,
    tx_id BIGINT NOT NULL,
    output_index BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    address_id BIGINT NOT NULL,
    parent_class SMALLINT NOT NULL,
    parent_height BIGINT,
    parent_coinbase SMALLINT NOT NULL,
    spent_by_tx_id BIGINT,
    spent_input_index BIGINT,
    CONSTRAINT utxos_key PRIMARY KEY (wallet_id, id),
    CONSTRAINT utxos_outpoint_once UNIQUE (wallet_id, tx_id, output_index),
    CONSTRAINT utxos_tx FOREIGN KEY (wallet_id, tx_id)
        REFERENCES transactions (wallet_id, id) ON DELETE RESTRICT,
    CONSTRAINT utxos_address FOREIGN KEY (wallet_id, address_id)
        REFERENCES addresses (wallet_id, id) ON DELETE RESTRICT,
    CONSTRAINT utxos_spender FOREIGN KEY (wallet_id, spent_by_tx_id, spent_input_index)
        REFERENCES tx_inputs (wallet_id, tx_id, input_index) ON DELETE RESTRICT,
    CONSTRAINT utxos_output_index CHECK (output_index >= 0),
    CONSTRAINT utxos_amount CHECK (amount BETWEEN 0 AND 45000000000000000),
    CONSTRAINT utxos_spent_whole CHECK ((spent_by_tx_id IS NULL) = (spent_input_index IS NULL)),
    CONSTRAINT utxos_not_spent_by_itself CHECK (spent_by_tx_id IS NULL OR spent_by_tx_id <> tx_id),
    CONSTRAINT utxos_parent_class CHECK (parent_class BETWEEN 0 AND 4),
    CONSTRAINT utxos_parent_height CHECK ((parent_height IS NOT NULL) = (parent_class = 4)),
    CONSTRAINT utxos_parent_coinbase CHECK (
        parent_coinbase = 0 OR (parent_coinbase = 1 AND parent_class IN (0, 4))
    )
) {without_rowid};
CREATE INDEX utxos_unspent_by_amount
    ON utxos (wallet_id, amount, id, parent_class, parent_height, parent_coinbase, spent_by_tx_id)
    WHERE spent_by_tx_id IS NULL AND parent_class > 0;
CREATE INDEX utxos_unspent_by_age ON utxos (wallet_id, parent_height, id)
    WHERE spent_by_tx_id IS NULL AND parent_class = 4;
CREATE UNIQUE INDEX utxos_one_per_input ON utxos (wallet_id, spent_by_tx_id, spent_input_index)
    WHERE spent_by_tx_id IS NOT NULL;
CREATE INDEX utxos_by_address ON utxos (wallet_id, address_id);

CREATE TABLE tx_replacements (
    wallet_id BIGINT NOT NULL,
    replaced_tx_id BIGINT NOT NULL,
    replacement_tx_id BIGINT NOT NULL,
    reason SMALLINT NOT NULL,
    created_at_us BIGINT NOT NULL,
    CONSTRAINT tx_replacements_key PRIMARY KEY (wallet_id, replaced_tx_id, replacement_tx_id),
    CONSTRAINT tx_replacements_replaced FOREIGN KEY (wallet_id, replaced_tx_id)
        REFERENCES transactions (wallet_id, id) ON DELETE CASCADE,
    CONSTRAINT tx_replacements_replacement FOREIGN KEY (wallet_id, replacement_tx_id)
        REFERENCES transactions (wallet_id, id) ON DELETE CASCADE,
    CONSTRAINT tx_replacements_not_itself CHECK (replaced_tx_id <> replacement_tx_id),
    CONSTRAINT tx_replacements_reason CHECK (reason IN (1, 2))
) {without_rowid};
CREATE INDEX tx_replacements_by_replacement ON tx_replacements (wallet_id, replacement_tx_id);

CREATE TABLE utxo_leases (
    wallet_id BIGINT NOT NULL,
    utxo_id BIGINT NOT NULL,
    lease_id {bytes} NOT NULL,
    expires_at_us BIGINT NOT NULL,
    hold_confirmations BIGINT,
    is_held SMALLINT NOT NULL,
    spent_height BIGINT,
    CONSTRAINT utxo_leases_key PRIMARY KEY (wallet_id, utxo_id),
    CONSTRAINT utxo_leases_utxo FOREIGN KEY (wallet_id, utxo_id)
        REFERENCES utxos (wallet_id, id) ON DELETE CASCADE,
    CONSTRAINT utxo_leases_lease_id CHECK (length(lease_id) = 32),
    CONSTRAINT utxo_leases_hold CHECK (hold_confirmations IS NULL OR hold_confirmations > 0),
    CONSTRAINT utxo_leases_is_held CHECK (
        is_held = 0 OR (is_held = 1 AND hold_confirmations IS NOT NULL)
    ),
    CONSTRAINT utxo_leases_spent_is_held CHECK (spent_height IS NULL OR is_held = 1)
) {without_rowid};
CREATE INDEX utxo_leases_by_expiry ON utxo_leases (wallet_id, expires_at_us);

CREATE TABLE labels (
    wallet_id BIGINT NOT NULL,
    kind TEXT NOT NULL,
    ref TEXT NOT NULL,
    label TEXT NOT NULL,
    origin TEXT,
    spendable SMALLINT,
    CONSTRAINT labels_key PRIMARY KEY (wallet_id, kind, ref),
    CONSTRAINT labels_wallet FOREIGN KEY (wallet_id) REFERENCES wallets (id) ON DELETE RESTRICT,
    CONSTRAINT labels_kind CHECK (kind IN ('tx', 'addr', 'pubkey', 'input', 'output', 'xpub')),
    CONSTRAINT labels_label CHECK (length(label) <= 500),
    CONSTRAINT labels_spendable CHECK (
        spendable IS NULL OR (kind = 'output' AND spendable IN (0, 1))
    )
) {without_rowid};

CREATE VIEW spendable_utxos AS
SELECT u.wallet_id, u.id, u.tx_id, t.txid, u.output_index, u.amount, u.address_id,
       t.block_height, t.is_coinbase, t.status AS tx_status
FROM utxos u
JOIN transactions t ON t.wallet_id = u.wallet_id AND t.id = u.tx_id
WHERE u.spent_by_tx_id IS NULL AND t.status IN (0, 1) AND t.is_waiting = 0;
";

const DOWN_1: &str = "
DROP VIEW spendable_utxos;
DROP TABLE labels;
DROP TABLE utxo_leases;
DROP TABLE tx_replacements;
DROP TABLE utxos;
DROP TABLE tx_inputs;
DROP TABLE transactions;
DROP TABLE addresses;
DROP TABLE wallets;
DROP TABLE blocks;
DROP TABLE chains;
";
