//! A made history of one wallet, as plain numbers: the peers are measured on the same one.
//!
//! Every payment spends one coin of an earlier block and makes two (or more, to fill a large wallet
//! sooner). With two, as many coins are left as there were payments, and half of all coins are
//! spent. Amounts are spread evenly over the orders of magnitude.

/// An output of the history: the number of its transaction, and its index.
pub(crate) type CoinPosition = (u64, u32);

/// Everything the history pays goes to the wallet.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) amount: u64,
    pub(crate) address: u32,
}

/// A transaction.
#[derive(Debug, Clone)]
pub(crate) struct Payment {
    pub(crate) number: u64,
    /// What it spends; `None` is an output of somebody else.
    pub(crate) input: Option<CoinPosition>,
    pub(crate) is_coinbase: bool,
    pub(crate) outputs: Vec<Output>,
}

/// Makes one block after the other; the same every time.
pub(crate) struct History {
    addresses: u32,
    next: u64,
    state: u64,
    unspent: Vec<CoinPosition>,
}

impl History {
    pub(crate) fn new(addresses: u32) -> Self {
        Self { addresses, next: 0, state: 7, unspent: Vec::new() }
    }

    /// A coinbase and `payments` payments that make `coins_each` coins each.
    pub(crate) fn block(&mut self, payments: u64, coins_each: u32) -> Vec<Payment> {
        let mut made = Vec::new();
        // What a coinbase pays is never spent, so that nobody has to think about its age.
        let mut block = vec![self.payment(None, true, 1)];
        for _ in 0..payments {
            let payment = self.payment_from_any(coins_each);
            made.extend((0..coins_each).map(|index| (payment.number, index)));
            block.push(payment);
        }
        self.unspent.append(&mut made);
        block
    }

    /// A payment that is in no block; nothing spends from it.
    pub(crate) fn payment_from_any(&mut self, coins_each: u32) -> Payment {
        let input = (!self.unspent.is_empty()).then(|| {
            let at = self.random() % self.unspent.len() as u64;
            self.unspent.swap_remove(usize::try_from(at).unwrap_or(0))
        });
        self.payment(input, false, coins_each)
    }

    /// An amount between a thousand and a thousand million.
    pub(crate) fn amount(&mut self) -> u64 {
        let magnitude = 10_u64.pow(u32::try_from(3 + self.random() % 6).unwrap_or(3));
        magnitude + self.random() % (9 * magnitude)
    }

    fn payment(&mut self, input: Option<CoinPosition>, is_coinbase: bool, coins: u32) -> Payment {
        let number = self.next;
        self.next += 1;
        let output = |_| {
            let address = u32::try_from(self.random() % u64::from(self.addresses)).unwrap_or(0);
            Output { amount: self.amount(), address }
        };
        let outputs = (0..coins).map(output).collect();
        Payment { number, input, is_coinbase, outputs }
    }

    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
