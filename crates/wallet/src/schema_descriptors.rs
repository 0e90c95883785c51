//! Tables of descriptors, and of the newest blocks.

pub(crate) const UP: &str = "
CREATE TABLE descriptors (
    wallet_id BIGINT NOT NULL,
    id BIGINT NOT NULL,
    descriptor TEXT NOT NULL,
    keychain BIGINT NOT NULL,
    is_ranged SMALLINT NOT NULL,
    next_index BIGINT NOT NULL,
    derived_count BIGINT NOT NULL,
    lookahead BIGINT NOT NULL,
    created_at_us BIGINT NOT NULL,
    CONSTRAINT descriptors_key PRIMARY KEY (wallet_id, id),
    CONSTRAINT descriptors_wallet FOREIGN KEY (wallet_id)
        REFERENCES wallets (id) ON DELETE RESTRICT,
    CONSTRAINT descriptors_text CHECK (length(descriptor) BETWEEN 1 AND 10009),
    CONSTRAINT descriptors_keychain CHECK (keychain >= 0),
    CONSTRAINT descriptors_is_ranged CHECK (is_ranged IN (0, 1)),
    CONSTRAINT descriptors_counts CHECK (
        next_index BETWEEN 0 AND derived_count AND derived_count <= 2147483648
    ),
    CONSTRAINT descriptors_lookahead CHECK (lookahead > 0)
);

CREATE TABLE descriptor_scripts (
    wallet_id BIGINT NOT NULL,
    descriptor_id BIGINT NOT NULL,
    script_index BIGINT NOT NULL,
    address_id BIGINT NOT NULL,
    CONSTRAINT descriptor_scripts_key PRIMARY KEY (wallet_id, descriptor_id, script_index),
    CONSTRAINT descriptor_scripts_descriptor FOREIGN KEY (wallet_id, descriptor_id)
        REFERENCES descriptors (wallet_id, id) ON DELETE RESTRICT,
    CONSTRAINT descriptor_scripts_address FOREIGN KEY (wallet_id, address_id)
        REFERENCES addresses (wallet_id, id) ON DELETE RESTRICT,
    CONSTRAINT descriptor_scripts_index CHECK (script_index BETWEEN 0 AND 2147483647)
) {without_rowid};
CREATE INDEX descriptor_scripts_by_address ON descriptor_scripts (wallet_id, address_id);

CREATE TABLE recent_blocks (
    chain_id BIGINT NOT NULL,
    height BIGINT NOT NULL,
    hash {bytes} NOT NULL,
    CONSTRAINT recent_blocks_key PRIMARY KEY (chain_id, height),
    CONSTRAINT recent_blocks_chain FOREIGN KEY (chain_id)
        REFERENCES chains (id) ON DELETE RESTRICT,
    CONSTRAINT recent_blocks_height CHECK (height >= 0),
    CONSTRAINT recent_blocks_hash CHECK (length(hash) = 32)
) {without_rowid};
";

pub(crate) const DOWN: &str = "
DROP TABLE recent_blocks;
DROP TABLE descriptor_scripts;
DROP TABLE descriptors;
";
