//! An empty database on either engine.

use tempfile::TempDir;
use utxokeep_sql::{Database, Options};
use utxokeep_testkit::postgres::TestDatabase;

pub(crate) struct EngineUnderTest {
    url: String,
    server: Option<TestDatabase>,
    _directory: Option<TempDir>,
}

impl EngineUnderTest {
    pub(crate) fn sqlite() -> Self {
        let directory = TempDir::new().unwrap();
        let url = format!("sqlite:{}", directory.path().join("test.db").display());
        Self { url, server: None, _directory: Some(directory) }
    }

    pub(crate) fn postgres() -> Option<Self> {
        let server = TestDatabase::create_or_skip()?;
        Some(Self { url: server.url().to_owned(), server: Some(server), _directory: None })
    }

    pub(crate) fn server(&self) -> &TestDatabase {
        self.server.as_ref().unwrap()
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn is_file(&self) -> bool {
        self.server.is_none()
    }

    pub(crate) fn open(&self) -> Database {
        self.open_with(&Options::default())
    }

    pub(crate) fn open_with(&self, options: &Options) -> Database {
        Database::open(&self.url, options).unwrap()
    }

    /// Opens it and creates tables.
    pub(crate) fn with_tables(&self, definitions: &str) -> Database {
        let database = self.open();
        database.write(|tx| tx.execute_batch(definitions)).unwrap();
        database
    }
}

/// Makes a test for each engine out of functions that take a [`EngineUnderTest`].
macro_rules! on_both_engines {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test]
            fn $name() {
                super::$name(&crate::place::EngineUnderTest::sqlite());
            })+
        }
        mod postgres {
            $(#[test]
            fn $name() {
                if let Some(place) = crate::place::EngineUnderTest::postgres() {
                    super::$name(&place);
                }
            })+
        }
    };
}
pub(crate) use on_both_engines;
