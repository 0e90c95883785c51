//! What is wrong with a request, and where in it.

use tonic::Status;

/// A part of a request that breaks the contract.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// From the request down to the field, such as `transactions[3].txid`.
    path: String,
    problem: String,
}

impl Fault {
    pub(super) fn new(problem: impl Into<String>) -> Self {
        Self { path: String::new(), problem: problem.into() }
    }

    /// One whose place is known already.
    pub(super) fn at(path: String, problem: String) -> Self {
        Self { path, problem }
    }

    /// The same, seen from one level higher.
    fn within(mut self, field: &str) -> Self {
        self.path = match self.path.as_str() {
            "" => field.to_owned(),
            path => format!("{field}.{path}"),
        };
        self
    }
}

impl From<Fault> for Status {
    fn from(Fault { path, problem }: Fault) -> Self {
        let place = if path.is_empty() { path } else { format!("{path}: ") };
        Self::invalid_argument(format!("{place}{problem}; nothing was changed"))
    }
}

/// Says where a fault is, on its way up.
pub(super) trait Within {
    fn within(self, field: &str) -> Self;
}

impl<T> Within for Result<T, Fault> {
    fn within(self, field: &str) -> Self {
        self.map_err(|fault| fault.within(field))
    }
}

/// A message that must be there.
pub(super) fn required<T>(field: &str, message: Option<T>) -> Result<T, Fault> {
    message.ok_or_else(|| Fault::new("is missing")).within(field)
}

/// Converts the items of a list.
pub(super) fn each<A, B>(
    field: &str,
    items: Vec<A>,
    convert: impl Fn(A) -> Result<B, Fault>,
) -> Result<Vec<B>, Fault> {
    let items = items.into_iter().enumerate();
    items
        .map(|(at, item)| convert(item).map_err(|fault| fault.within(&format!("{field}[{at}]"))))
        .collect()
}

/// The same for the list that a request is about, whose length is limited.
pub(super) fn batch<A, B>(
    field: &str,
    items: Vec<A>,
    items_max: usize,
    convert: impl Fn(A) -> Result<B, Fault>,
) -> Result<Vec<B>, Fault> {
    if items.len() > items_max {
        let problem =
            format!("{} items, the most is {items_max}: send fewer at a time", items.len());
        return Err(Fault::new(problem)).within(field);
    }
    each(field, items, convert)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_says_where_it_is() {
        let odd = |n: u32| if n % 2 == 1 { Ok(n) } else { Err(Fault::new("is even")).within("n") };
        assert_eq!(each("items", vec![1, 3], odd), Ok(vec![1, 3]));
        let fault = batch("items", vec![1, 2], 2, odd).within("list").unwrap_err();
        let status = Status::from(fault);
        assert_eq!(status.code(), tonic::Code::InvalidArgument);
        assert_eq!(status.message(), "list.items[1].n: is even; nothing was changed");
        let status = Status::from(batch("items", vec![1, 3, 5], 2, odd).unwrap_err());
        assert!(status.message().starts_with("items: 3 items, the most is 2"), "{status}");
        let status = Status::from(required::<()>("block", None).unwrap_err());
        assert_eq!(status.message(), "block: is missing; nothing was changed");
    }
}
