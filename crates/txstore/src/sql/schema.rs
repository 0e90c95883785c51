//! The tables, step by step.

use utxokeep_sql::Migration;

/// Name of this part of a database.
pub const COMPONENT: &str = "node_store";

/// Every table.
pub(super) const TABLES: &[&str] = &[
    "node_transactions",
    "node_inputs",
    "node_outputs",
    "node_block_ids",
    "node_conflicting_children",
    "node_reassignments",
    "node_deleted_children",
    "node_state",
    "node_unsettled",
];

/// Every step of the schema.
pub const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "node store", up: UP_1, down: DOWN_1 },
    Migration { version: 2, name: "generation of unsettled records", up: UP_2, down: DOWN_2 },
    Migration { version: 3, name: "height of the newest spend", up: UP_3, down: DOWN_3 },
    Migration { version: 4, name: "records kept for a child", up: UP_4, down: DOWN_4 },
    Migration { version: 5, name: "format 2 of values", up: UP_5, down: DOWN_5 },
    Migration { version: 6, name: "checksums of bodies", up: UP_6, down: DOWN_6 },
];

/// Every key starts with the transaction, so that rows of one transaction are neighbours, and the
/// tables can be spread over machines by it.
const UP_1: &str = "
CREATE TABLE node_transactions (
    txid {bytes} NOT NULL PRIMARY KEY CHECK (length(txid) = 32),
    version BIGINT,
    lock_time BIGINT,
    fee BIGINT,
    is_coinbase BIGINT NOT NULL CHECK (is_coinbase IN (0, 1)),
    is_conflicting BIGINT NOT NULL CHECK (is_conflicting IN (0, 1)),
    is_locked BIGINT NOT NULL CHECK (is_locked IN (0, 1)),
    blob BIGINT NOT NULL CHECK (blob IN (0, 1, 2)),
    spendable_at BIGINT,
    outputs BIGINT NOT NULL,
    utxos BIGINT NOT NULL,
    spent BIGINT NOT NULL CHECK (spent >= 0 AND spent <= utxos),
    unmined_since BIGINT,
    created_at_ms BIGINT NOT NULL,
    delete_at_height BIGINT,
    preserve_until BIGINT CHECK (preserve_until IS NULL OR delete_at_height IS NULL),
    blocks BIGINT NOT NULL,
    conflicting_children BIGINT NOT NULL,
    reassignments BIGINT NOT NULL,
    deleted_children BIGINT NOT NULL
) {without_rowid};
CREATE INDEX node_transactions_due ON node_transactions (delete_at_height, txid)
    WHERE delete_at_height IS NOT NULL;
CREATE INDEX node_transactions_unmined ON node_transactions (unmined_since, txid)
    WHERE unmined_since IS NOT NULL;
CREATE INDEX node_transactions_preserved ON node_transactions (preserve_until, txid)
    WHERE preserve_until IS NOT NULL;
CREATE TABLE node_inputs (
    txid {bytes} NOT NULL,
    vin BIGINT NOT NULL,
    previous_txid {bytes} NOT NULL,
    previous_vout BIGINT NOT NULL,
    previous_satoshis BIGINT,
    previous_script {bytes},
    script {bytes} NOT NULL,
    sequence BIGINT NOT NULL,
    PRIMARY KEY (txid, vin)
) {without_rowid};
CREATE TABLE node_outputs (
    txid {bytes} NOT NULL,
    vout BIGINT NOT NULL,
    satoshis BIGINT,
    script {bytes},
    utxo_hash {bytes} CHECK (utxo_hash IS NULL OR length(utxo_hash) = 32),
    spending_data {bytes} CHECK (spending_data IS NULL OR length(spending_data) = 36),
    is_frozen BIGINT NOT NULL CHECK (is_frozen = 0 OR spending_data IS NULL),
    spendable_at BIGINT,
    PRIMARY KEY (txid, vout)
) {without_rowid};
CREATE TABLE node_block_ids (
    txid {bytes} NOT NULL,
    position BIGINT NOT NULL,
    block_id BIGINT NOT NULL,
    block_height BIGINT NOT NULL,
    subtree_idx BIGINT NOT NULL,
    PRIMARY KEY (txid, position)
) {without_rowid};
CREATE TABLE node_conflicting_children (
    txid {bytes} NOT NULL,
    position BIGINT NOT NULL,
    child_txid {bytes} NOT NULL,
    PRIMARY KEY (txid, position)
) {without_rowid};
CREATE TABLE node_reassignments (
    txid {bytes} NOT NULL,
    position BIGINT NOT NULL,
    vout BIGINT NOT NULL,
    old_hash {bytes} NOT NULL,
    new_hash {bytes} NOT NULL,
    script {bytes} NOT NULL,
    height BIGINT NOT NULL,
    PRIMARY KEY (txid, position)
) {without_rowid};
CREATE TABLE node_deleted_children (
    parent_txid {bytes} NOT NULL,
    child_txid {bytes} NOT NULL,
    PRIMARY KEY (parent_txid, child_txid)
) {without_rowid};
CREATE TABLE node_state (
    name {bytes} NOT NULL PRIMARY KEY,
    value {bytes} NOT NULL
) {without_rowid};
";

const DOWN_1: &str = "
DROP TABLE node_state;
DROP TABLE node_deleted_children;
DROP TABLE node_reassignments;
DROP TABLE node_conflicting_children;
DROP TABLE node_block_ids;
DROP TABLE node_outputs;
DROP TABLE node_inputs;
DROP TABLE node_transactions;
";

/// One row that transactions lock in place of the children they rely on.
const UP_2: &str = "
CREATE TABLE node_unsettled (
    id BIGINT NOT NULL PRIMARY KEY CHECK (id = 0),
    generation BIGINT NOT NULL
) {without_rowid};
INSERT INTO node_unsettled (id, generation) VALUES (0, 0);
";

const DOWN_2: &str = "
DROP TABLE node_unsettled;
";

/// Absent for records that were spent before: the height of the event counts for them, as it did.
const UP_3: &str = "
ALTER TABLE node_transactions ADD COLUMN spent_at BIGINT;
";

const DOWN_3: &str = "
ALTER TABLE node_transactions DROP COLUMN spent_at;
";

/// What the pruner keeps for a child that waits, apart from what others asked for.
const UP_4: &str = "
ALTER TABLE node_transactions ADD COLUMN kept_for_child_until BIGINT;
CREATE INDEX node_transactions_kept_for_child
    ON node_transactions (kept_for_child_until, txid) WHERE kept_for_child_until IS NOT NULL;
";

const DOWN_4: &str = "
DROP INDEX node_transactions_kept_for_child;
ALTER TABLE node_transactions DROP COLUMN kept_for_child_until;
";

/// No table changes. Programs that know up to step 4 would call values in `node_state` damaged; so
/// they refuse the database by its step. A format above 2 gets a step of its own too.
const UP_5: &str = "
UPDATE node_unsettled SET generation = generation + 1 WHERE id = 0;
";

const DOWN_5: &str = "
UPDATE node_unsettled SET generation = generation + 1 WHERE id = 0;
";

/// Of a body that is in rows the checksum of its parts, of one in a file that of the file. Absent for
/// those that were stored before.
const UP_6: &str = "
ALTER TABLE node_transactions ADD COLUMN body_checksum BIGINT;
";

const DOWN_6: &str = "
ALTER TABLE node_transactions DROP COLUMN body_checksum;
";
