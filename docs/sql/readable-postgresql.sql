-- Views of a wallet ledger for people, on PostgreSQL: states in words, ids as explorers print them,
-- timestamps in UTC. They are read only, and no program needs them.
--
--     psql -d DATABASE -f docs/sql/readable-postgresql.sql
--
-- Drop them before an upgrade, and run the file again after it. docs/sql.md explains the columns.

DROP VIEW IF EXISTS readable_leases;
DROP VIEW IF EXISTS readable_utxos;
DROP VIEW IF EXISTS readable_transactions;
DROP VIEW IF EXISTS readable_wallets;

CREATE VIEW readable_wallets AS
SELECT
    w.name AS wallet,
    c.chain || '/' || c.network AS network,
    c.tip_height AS tip_height,
    to_timestamp(w.created_at_us / 1000000.0) AS created_at,
    to_timestamp(w.archived_at_us / 1000000.0) AS archived_at
FROM wallets w
JOIN chains c ON c.id = w.chain_id;

-- Bitcoin's tools print hashes in reverse; Cardano's print them as they are stored.
CREATE VIEW readable_transactions AS
SELECT
    h.wallet,
    CASE WHEN h.chain = 'bitcoin' THEN
        substr(h.hex, 63, 2) || substr(h.hex, 61, 2) || substr(h.hex, 59, 2) || substr(h.hex, 57, 2) ||
        substr(h.hex, 55, 2) || substr(h.hex, 53, 2) || substr(h.hex, 51, 2) || substr(h.hex, 49, 2) ||
        substr(h.hex, 47, 2) || substr(h.hex, 45, 2) || substr(h.hex, 43, 2) || substr(h.hex, 41, 2) ||
        substr(h.hex, 39, 2) || substr(h.hex, 37, 2) || substr(h.hex, 35, 2) || substr(h.hex, 33, 2) ||
        substr(h.hex, 31, 2) || substr(h.hex, 29, 2) || substr(h.hex, 27, 2) || substr(h.hex, 25, 2) ||
        substr(h.hex, 23, 2) || substr(h.hex, 21, 2) || substr(h.hex, 19, 2) || substr(h.hex, 17, 2) ||
        substr(h.hex, 15, 2) || substr(h.hex, 13, 2) || substr(h.hex, 11, 2) || substr(h.hex, 9, 2) ||
        substr(h.hex, 7, 2) || substr(h.hex, 5, 2) || substr(h.hex, 3, 2) || substr(h.hex, 1, 2)
    ELSE h.hex END AS txid,
    CASE h.status
        WHEN 0 THEN 'pending' WHEN 1 THEN 'published' WHEN 2 THEN 'replaced'
        WHEN 3 THEN 'failed' WHEN 4 THEN 'orphaned' END AS status,
    CASE h.invalid_reason
        WHEN 1 THEN 'replaced' WHEN 2 THEN 'double-spent' WHEN 3 THEN 'abandoned'
        WHEN 4 THEN 'an ancestor is not live' END AS reason,
    h.block_height,
    CASE h.is_coinbase WHEN 1 THEN 'yes' ELSE 'no' END AS is_coinbase,
    CASE h.is_waiting WHEN 1 THEN 'yes' ELSE 'no' END AS is_waiting,
    CASE h.is_claimed WHEN 1 THEN 'yes' ELSE 'no' END AS is_claimed,
    to_timestamp(h.received_at_us / 1000000.0) AS received_at,
    h.wallet_id,
    h.id AS tx_id
FROM (
    SELECT
        t.wallet_id, t.id, t.status, t.invalid_reason, t.block_height, t.is_coinbase,
        t.is_waiting, t.is_claimed, t.received_at_us, w.name AS wallet, c.chain,
        encode(t.txid, 'hex') AS hex
    FROM transactions t
    JOIN wallets w ON w.id = t.wallet_id
    JOIN chains c ON c.id = t.chain_id
) h;

CREATE VIEW readable_utxos AS
SELECT
    t.wallet,
    t.txid || ':' || u.output_index AS outpoint,
    u.amount,
    a.address,
    encode(a.script, 'hex') AS script,
    CASE WHEN u.spent_by_tx_id IS NULL THEN 'unspent' ELSE 'spent' END AS state,
    CASE u.parent_class
        WHEN 0 THEN 'not live' WHEN 1 THEN 'pending' WHEN 2 THEN 'untrusted'
        WHEN 3 THEN 'trusted' WHEN 4 THEN 'confirmed' END AS class,
    t.block_height,
    t.is_coinbase,
    s.txid AS spent_by,
    u.wallet_id,
    u.id AS utxo_id
FROM utxos u
JOIN readable_transactions t ON t.wallet_id = u.wallet_id AND t.tx_id = u.tx_id
JOIN addresses a ON a.wallet_id = u.wallet_id AND a.id = u.address_id
LEFT JOIN readable_transactions s ON s.wallet_id = u.wallet_id AND s.tx_id = u.spent_by_tx_id;

CREATE VIEW readable_leases AS
SELECT
    u.wallet,
    u.outpoint,
    u.amount,
    encode(l.lease_id, 'hex') AS owner,
    to_timestamp(l.expires_at_us / 1000000.0) AS leased_until,
    CASE l.is_held WHEN 1 THEN 'yes' ELSE 'no' END AS is_held,
    l.hold_confirmations
FROM utxo_leases l
JOIN readable_utxos u ON u.wallet_id = l.wallet_id AND u.utxo_id = l.utxo_id;
