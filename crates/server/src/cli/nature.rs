//! What a command does to the data that it names: it reads, it changes what exists, or it may create.
//!
//! This is the only place that decides it, and every command is named here: there is no default that
//! a new one could fall into. Operations of the tables say it of themselves.

use utxokeep_core::OpenMode;

use super::args::{
    Chain, Command, Consumers, Labels, Mmr, PersisterCommand, Pruner, StoreCommand, Tx,
    WalletCommand,
};

/// A command that writes only if it is told to.
const fn writes_if(told: bool) -> OpenMode {
    if told { OpenMode::Existing } else { OpenMode::Read }
}

/// How a command opens the chain database, the node store or the wallet ledger that it works on.
pub(super) const fn of(command: &Command) -> OpenMode {
    match command {
        Command::Chain(command) => of_chain(command),
        Command::Store(StoreCommand::Verify(_)) => OpenMode::Read,
        Command::Persister(PersisterCommand::Status | PersisterCommand::Verify(_)) => {
            OpenMode::Read
        }
        Command::Tx(command) => of_tx(command),
        // A bench makes stores of its own and opens none that exists. Of a move this is the target;
        // its source is opened as the options need it.
        Command::Store(StoreCommand::Bench(_) | StoreCommand::Move(_))
        | Command::Serve(_)
        | Command::Demo(_) => OpenMode::Create,
        Command::Pruner(command) => of_pruner(command),
        Command::Wallet(args) => of_wallet(&args.command),
    }
}

const fn of_chain(command: &Chain) -> OpenMode {
    match command {
        Chain::Import(_) | Chain::Follow(_) => OpenMode::Create,
        Chain::Verify
        | Chain::Watch(_)
        | Chain::Consumers(Consumers::List)
        | Chain::Mmr(Mmr::Root(_) | Mmr::Prove(_) | Mmr::Check(_)) => OpenMode::Read,
        Chain::Rollback(args) => writes_if(!args.dry_run),
        Chain::Prune(_)
        | Chain::Consumers(Consumers::Register { .. } | Consumers::Forget { .. })
        | Chain::Mmr(Mmr::Enable(_) | Mmr::Disable) => OpenMode::Existing,
        Chain::Recover(args) => writes_if(args.accept_loss),
    }
}

const fn of_tx(command: &Tx) -> OpenMode {
    match command {
        Tx::Verify(args) => writes_if(args.repair_blobs),
        Tx::Settings(args) => writes_if(args.change),
        Tx::AdoptBlobs(_) => OpenMode::Existing,
        Tx::Recover(args) => writes_if(args.accept_loss),
    }
}

const fn of_pruner(command: &Pruner) -> OpenMode {
    match command {
        Pruner::Serve(_) => OpenMode::Create,
        Pruner::Run(_)
        | Pruner::Pause(_)
        | Pruner::Resume(_)
        | Pruner::Preserve(_)
        | Pruner::Restore(_)
        | Pruner::Confirm(_)
        | Pruner::ForgetPersister(_)
        | Pruner::ForgetNodeState(_) => OpenMode::Existing,
    }
}

const fn of_wallet(command: &WalletCommand) -> OpenMode {
    match command {
        WalletCommand::Follow(_) => OpenMode::Create,
        WalletCommand::Labels(Labels::Export(_))
        | WalletCommand::Verify(_)
        | WalletCommand::Events(_) => OpenMode::Read,
        WalletCommand::Bump(args) => writes_if(!args.request.is_dry_run),
        WalletCommand::Prune(args) => writes_if(!args.dry_run),
        WalletCommand::Record(_)
        | WalletCommand::Broadcast(_)
        | WalletCommand::Psbt(_)
        | WalletCommand::Labels(Labels::Import(_))
        | WalletCommand::Scan(_) => OpenMode::Existing,
    }
}
