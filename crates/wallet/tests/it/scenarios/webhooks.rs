//! Webhooks in the ledger: who delivers, how far it has come, what failures lead to.

use utxokeep_wallet::{
    Holder, LedgerError, NewWebhook, Outcome, RetryPolicy, WalletId, Webhook, WebhookState,
};

use crate::scenarios::{
    on_both,
    world::{SECOND, World, outside, pay},
};

on_both!(
    a_webhook_gets_what_comes_after_it_or_after_a_cursor,
    two_programs_do_not_deliver_the_same_at_the_same_time,
    a_program_that_dies_leaves_its_events_to_others,
    a_program_that_was_too_slow_changes_nothing,
    failures_pause_longer_and_longer_and_disable_in_the_end,
    a_paused_webhook_gets_what_has_waited,
    forgotten_events_disable_a_webhook_that_missed_them,
    numbers_of_webhooks_are_given_once_and_their_count_is_limited,
);

const A: Holder = [1; 16];
const B: Holder = [2; 16];
const HOLD: i64 = 15 * SECOND;
const POLICY: RetryPolicy = RetryPolicy {
    pause_us: SECOND,
    pause_max_us: 4 * SECOND,
    attempts_max: 5,
    give_up_us: 3_600 * SECOND,
};

fn add(w: &World<'_>, after: Option<i64>) -> Webhook {
    let secret = "s".repeat(64);
    let new = NewWebhook { url: "https://example.com/hook".to_owned(), secret, after };
    w.ledger.add_webhook(w.wallet, &new, w.now).unwrap()
}

fn receive(w: &World<'_>, name: u8) {
    w.mempool(&pay(name, &[outside(name)], &[1_000]));
}

fn place(w: &World<'_>, webhook: &Webhook) -> (WalletId, i64) {
    (w.wallet, webhook.id)
}

/// Numbers of the events that a program gets to deliver.
fn hold(w: &World<'_>, webhook: &Webhook, holder: &Holder) -> Option<Vec<i64>> {
    let held = w.ledger.hold_webhook(place(w, webhook), holder, HOLD, 2, w.now).unwrap();
    held.map(|delivery| delivery.events.iter().map(|event| event.id).collect())
}

fn end(
    w: &World<'_>,
    webhook: &Webhook,
    holder: &Holder,
    through: i64,
    outcome: Outcome<'_>,
) -> bool {
    let place = place(w, webhook);
    let noted = w.ledger.end_delivery(place, holder, through, outcome, &POLICY, w.now).unwrap();
    w.check();
    noted
}

fn due(w: &World<'_>) -> usize {
    w.ledger.due_webhooks(10, w.now).unwrap().len()
}

fn look(w: &World<'_>, webhook: &Webhook) -> Webhook {
    w.ledger.webhook(w.wallet, webhook.id).unwrap()
}

fn a_webhook_gets_what_comes_after_it_or_after_a_cursor(w: &mut World<'_>) {
    receive(w, 1);
    let (new, old) = (add(w, None), add(w, Some(0)));
    assert_eq!((new.cursor, new.waiting, old.cursor, old.waiting), (1, 0, 0, 1));
    assert_eq!(due(w), 1);
    receive(w, 2);
    receive(w, 3);
    assert_eq!(due(w), 2);
    // In order, a limited number at a time.
    assert_eq!(hold(w, &old, &A), Some(vec![1, 2]));
    assert!(end(w, &old, &A, 2, Outcome::Delivered));
    assert_eq!(hold(w, &old, &A), Some(vec![3]));
    assert!(end(w, &old, &A, 3, Outcome::Delivered));
    assert_eq!(hold(w, &old, &A), None);
    assert_eq!((look(w, &old).cursor, look(w, &old).waiting), (3, 0));
    assert_eq!(hold(w, &new, &A), Some(vec![2, 3]));
    let beyond = NewWebhook { url: "https://x".to_owned(), secret: "s".repeat(64), after: Some(9) };
    assert!(w.ledger.add_webhook(w.wallet, &beyond, w.now).is_err());
}

fn two_programs_do_not_deliver_the_same_at_the_same_time(w: &mut World<'_>) {
    let webhook = add(w, None);
    receive(w, 1);
    assert_eq!(hold(w, &webhook, &A), Some(vec![1]));
    assert_eq!(due(w), 0);
    assert_eq!(hold(w, &webhook, &B), None);
    // Not even the same program holds it twice.
    assert_eq!(hold(w, &webhook, &A), None);
    assert!(end(w, &webhook, &A, 1, Outcome::Delivered));
    // What was delivered meanwhile is not held for nothing.
    assert_eq!(hold(w, &webhook, &B), None);
    receive(w, 2);
    assert_eq!(hold(w, &webhook, &B), Some(vec![2]));
    w.ledger.let_go_webhook(place(w, &webhook), &A).unwrap();
    assert_eq!(hold(w, &webhook, &A), None);
    w.ledger.let_go_webhook(place(w, &webhook), &B).unwrap();
    assert_eq!(hold(w, &webhook, &A), Some(vec![2]));
}

fn a_program_that_dies_leaves_its_events_to_others(w: &mut World<'_>) {
    let webhook = add(w, None);
    receive(w, 1);
    assert_eq!(hold(w, &webhook, &A), Some(vec![1]));
    w.tick(HOLD - 1);
    assert_eq!(hold(w, &webhook, &B), None);
    w.tick(1);
    assert_eq!(due(w), 1);
    assert_eq!(hold(w, &webhook, &B), Some(vec![1]));
}

fn a_program_that_was_too_slow_changes_nothing(w: &mut World<'_>) {
    let webhook = add(w, None);
    receive(w, 1);
    assert_eq!(hold(w, &webhook, &A), Some(vec![1]));
    w.tick(HOLD);
    assert_eq!(hold(w, &webhook, &B), Some(vec![1]));
    assert!(!end(w, &webhook, &A, 1, Outcome::Delivered));
    assert!(!end(w, &webhook, &A, 1, Outcome::Failed("late")));
    assert_eq!((look(w, &webhook).cursor, look(w, &webhook).failures), (0, 0));
    assert!(end(w, &webhook, &B, 1, Outcome::Delivered));
    assert_eq!(look(w, &webhook).cursor, 1);
    w.ledger.remove_webhook(w.wallet, webhook.id, w.now).unwrap();
    assert!(!end(w, &webhook, &B, 1, Outcome::Failed("it is gone")));
}

fn failures_pause_longer_and_longer_and_disable_in_the_end(w: &mut World<'_>) {
    let webhook = add(w, None);
    receive(w, 1);
    let since = w.now;
    for (failures, pause) in [(1, 1), (2, 2), (3, 4), (4, 4)] {
        assert_eq!(hold(w, &webhook, &A), Some(vec![1]));
        assert!(end(w, &webhook, &A, 1, Outcome::Failed("refused\0")));
        let now = look(w, &webhook);
        assert_eq!((now.state, now.failures, now.cursor), (WebhookState::Active, failures, 0));
        assert_eq!((now.failing_since, now.last_error.as_deref()), (Some(since), Some("refused")));
        assert_eq!(now.next_attempt, w.now.plus(pause * SECOND));
        w.tick(pause * SECOND - 1);
        assert_eq!((due(w), hold(w, &webhook, &B)), (0, None));
        w.tick(1);
        assert_eq!(due(w), 1);
    }
    assert_eq!(hold(w, &webhook, &A), Some(vec![1]));
    assert!(end(w, &webhook, &A, 1, Outcome::Failed("refused")));
    assert_eq!(look(w, &webhook).state, WebhookState::Disabled);
    w.tick(3_600 * SECOND);
    assert_eq!((due(w), hold(w, &webhook, &B)), (0, None));
    let resumed = w.ledger.set_webhook_active(w.wallet, webhook.id, true, w.now).unwrap();
    assert_eq!((resumed.state, resumed.failures), (WebhookState::Active, 0));
    assert_eq!((resumed.failing_since, resumed.last_error), (None, None));
    assert_eq!(hold(w, &webhook, &B), Some(vec![1]));
    assert!(end(w, &webhook, &B, 1, Outcome::Delivered));
}

fn a_paused_webhook_gets_what_has_waited(w: &mut World<'_>) {
    let webhook = add(w, None);
    receive(w, 1);
    w.ledger.set_webhook_active(w.wallet, webhook.id, false, w.now).unwrap();
    assert_eq!((due(w), hold(w, &webhook, &A)), (0, None));
    assert_eq!(look(w, &webhook).state, WebhookState::Paused);
    receive(w, 2);
    w.ledger.set_webhook_active(w.wallet, webhook.id, true, w.now).unwrap();
    assert_eq!(hold(w, &webhook, &A), Some(vec![1, 2]));
    // Pausing lets a delivery under way come to its end, and a failure does not resume it.
    w.ledger.set_webhook_active(w.wallet, webhook.id, false, w.now).unwrap();
    assert!(end(w, &webhook, &A, 2, Outcome::Failed("no")));
    assert_eq!(look(w, &webhook).state, WebhookState::Paused);
    let unknown = w.ledger.set_webhook_active(w.wallet, 99, true, w.now);
    assert!(matches!(unknown, Err(LedgerError::WebhookNotFound(99))), "{unknown:?}");
}

fn forgotten_events_disable_a_webhook_that_missed_them(w: &mut World<'_>) {
    let webhook = add(w, None);
    for name in 1..=4 {
        receive(w, name);
    }
    w.ledger.clean_events(1, 86_400 * SECOND, 100, w.now).unwrap();
    assert_eq!(hold(w, &webhook, &A), None);
    let now = look(w, &webhook);
    assert_eq!(now.state, WebhookState::Disabled);
    assert!(now.last_error.unwrap().contains("events 1 to 3 were forgotten"));
    w.check();
    w.ledger.set_webhook_active(w.wallet, webhook.id, true, w.now).unwrap();
    assert_eq!(hold(w, &webhook, &A), Some(vec![4]));
}

fn numbers_of_webhooks_are_given_once_and_their_count_is_limited(w: &mut World<'_>) {
    let first = add(w, None);
    w.ledger.remove_webhook(w.wallet, first.id, w.now).unwrap();
    assert!(matches!(
        w.ledger.remove_webhook(w.wallet, first.id, w.now),
        Err(LedgerError::WebhookNotFound(1))
    ));
    assert_eq!(add(w, None).id, 2);
    for _ in 0..9 {
        add(w, None);
    }
    let new = NewWebhook { url: "https://x".to_owned(), secret: "s".repeat(64), after: None };
    assert!(w.ledger.add_webhook(w.wallet, &new, w.now).is_err());
    assert_eq!(w.ledger.webhooks(w.wallet).unwrap().len(), 10);
    w.check();
}
