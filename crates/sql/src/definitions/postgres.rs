//! `PostgreSQL` writes definitions down anew from its catalogue.

use std::collections::BTreeMap;

use super::{Definitions, Kind, Object};
use crate::database::Database;
use crate::error::SqlError;
use crate::migration::Migration;
use crate::postgres;
use crate::transaction::Transaction;
use crate::value::Value;

/// What follows is made as temporary tables, views and indexes, under the names of the real ones.
const MAKE_TEMPORARY: &str = "SET LOCAL search_path TO pg_temp";
const SELECT_TEMPORARY: &str =
    "SELECT CAST(nspname AS TEXT) FROM pg_namespace WHERE oid = pg_my_temp_schema()";
/// Where unqualified names of the statements lead.
const SELECT_SCHEMA: &str = "SELECT CAST(n.nspname AS TEXT) FROM pg_namespace n
    JOIN pg_class c ON c.relnamespace = n.oid WHERE c.oid = to_regclass('utxokeep_migrations')";
const SELECT: &str = "WITH t AS (
        SELECT c.oid, CAST(c.relname AS TEXT) AS name, c.relkind, c.relpersistence,
            c.relrowsecurity
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE CAST(n.nspname AS TEXT) = $1 AND c.relkind IN ('r', 'p', 'f', 'v', 'm'))
    SELECT 'view', t.name, t.name, pg_get_viewdef(t.oid) FROM t WHERE t.relkind = 'v'
    UNION ALL SELECT 'table', t.name, t.name, concat(CAST(t.relkind AS TEXT),
        CASE WHEN t.relpersistence = 'u' THEN ' unlogged' END,
        CASE WHEN t.relrowsecurity THEN ' with row security' END)
    FROM t WHERE t.relkind <> 'v'
    UNION ALL SELECT 'column', t.name, CAST(a.attname AS TEXT),
        concat_ws(' ', format_type(a.atttypid, a.atttypmod),
            CASE WHEN a.attnotnull THEN 'not null' END,
            'default ' || pg_get_expr(d.adbin, d.adrelid),
            'identity ' || NULLIF(CAST(a.attidentity AS TEXT), ''),
            'generated ' || NULLIF(CAST(a.attgenerated AS TEXT), ''),
            'collate ' || CAST(l.collname AS TEXT))
    FROM t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type y ON y.oid = a.atttypid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    LEFT JOIN pg_collation l ON l.oid = a.attcollation AND a.attcollation <> y.typcollation
    WHERE t.relkind <> 'v'
    UNION ALL SELECT 'constraint', t.name, CAST(k.conname AS TEXT), pg_get_constraintdef(k.oid)
    FROM t JOIN pg_constraint k ON k.conrelid = t.oid
    WHERE k.contype IN ('c', 'f', 'p', 'u', 'x')
    UNION ALL SELECT 'index', t.name, CAST(i.relname AS TEXT), concat(pg_get_indexdef(i.oid),
        CASE WHEN NOT (x.indisvalid AND x.indisready AND x.indislive) THEN ' NOT VALID' END)
    FROM t JOIN pg_index x ON x.indrelid = t.oid JOIN pg_class i ON i.oid = x.indexrelid
    UNION ALL SELECT 'trigger', t.name, CAST(g.tgname AS TEXT), pg_get_triggerdef(g.oid)
    FROM t JOIN pg_trigger g ON g.tgrelid = t.oid WHERE NOT g.tgisinternal
    UNION ALL SELECT 'disabled trigger', t.name, CAST(g.tgname AS TEXT), ''
    FROM t JOIN pg_trigger g ON g.tgrelid = t.oid WHERE g.tgisinternal AND g.tgenabled <> 'O'
    UNION ALL SELECT 'rule', t.name, CAST(r.rulename AS TEXT), pg_get_ruledef(r.oid)
    FROM t JOIN pg_rewrite r ON r.ev_class = t.oid
    WHERE t.relkind <> 'v' OR r.rulename <> '_RETURN'
    UNION ALL SELECT 'policy', t.name, CAST(p.polname AS TEXT), ''
    FROM t JOIN pg_policy p ON p.polrelid = t.oid
    UNION ALL SELECT 'child table', t.name, CAST(c.relname AS TEXT), ''
    FROM t JOIN pg_inherits h ON h.inhparent = t.oid JOIN pg_class c ON c.oid = h.inhrelid";

/// Why the transaction that makes everything once more is never committed.
enum RolledBack {
    Read(Definitions),
    Failed(SqlError),
}

impl From<SqlError> for RolledBack {
    fn from(error: SqlError) -> Self {
        Self::Failed(error)
    }
}

pub(super) fn expected(
    database: &Database,
    migrations: &[Migration],
) -> Result<Option<Definitions>, SqlError> {
    let made = database.rehearse(|tx| {
        tx.execute(MAKE_TEMPORARY, &[])?;
        for step in migrations {
            tx.execute_batch(step.up)?;
        }
        let schema = tx.query_one(SELECT_TEMPORARY, &[], |row| Ok(row.text(0)?.to_owned()))?;
        Err(RolledBack::Read(read(tx, &schema)?))
    });
    match made {
        Ok(never) => match never {},
        Err(RolledBack::Read(definitions)) => Ok(Some(definitions)),
        Err(RolledBack::Failed(error)) if postgres::is_not_allowed(&error) => Ok(None),
        Err(RolledBack::Failed(error)) => Err(error),
    }
}

pub(super) fn stored(tx: &mut Transaction<'_>) -> Result<Definitions, SqlError> {
    let schema = tx.query_one(SELECT_SCHEMA, &[], |row| Ok(row.text(0)?.to_owned()))?;
    read(tx, &schema)
}

fn read(tx: &mut Transaction<'_>, schema: &str) -> Result<Definitions, SqlError> {
    let quoted = schema.replace('"', "\"\"");
    let prefixes = [format!("{schema}."), format!("\"{quoted}\"."), "pg_temp.".to_owned()];
    let mut found = BTreeMap::new();
    tx.query(SELECT, &[Value::from(schema)], |row| {
        let kind = Kind::from_name(row.text(0)?)?;
        let object = Object { kind, table: row.text(1)?.to_owned(), name: row.text(2)?.to_owned() };
        let mut definition = row.text(3)?.to_owned();
        for prefix in &prefixes {
            definition = definition.replace(prefix, "");
        }
        found.insert(object, without_storage(&definition));
        Ok(())
    })?;
    Ok(Definitions(found))
}

/// An operator may tune how full the pages of an index are.
fn without_storage(definition: &str) -> String {
    let Some((before, options)) = definition.split_once(" WITH (") else {
        return definition.to_owned();
    };
    let behind = options.split_once(')').map_or("", |(_, behind)| behind);
    format!("{before}{behind}")
}
