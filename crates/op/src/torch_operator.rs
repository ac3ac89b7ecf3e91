//! Operators of ATen that are an operation of the table, and what each of their arguments is to it.

/// An operator of ATen in some of its overloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TorchOperator {
    /// The overloads: the functional one, then in-place and out forms.
    pub overloads: &'static [&'static str],
    /// An attribute of the operation with its value, which every call has.
    pub constant: Option<(&'static str, &'static str)>,
    /// ATen's arguments in their order.
    pub arguments: &'static [TorchArgument],
}

/// An argument of an operator of ATen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TorchArgument {
    /// ATen's name of it.
    pub name: &'static str,
    /// What it is to the operation.
    pub role: TorchRole,
}

/// What an argument of ATen is to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TorchRole {
    /// The next operand.
    Operand,
    /// The attribute of this name.
    Attribute(&'static str),
    /// Not passed on: it changes no result.
    Ignored,
    /// Refused where its truth is this.
    RefusedIf(bool),
    /// Refused where it is another number than 1.
    One,
    /// The dtype to which operand 0 is converted, and of the result.
    Dtype,
}

impl TorchOperator {
    /// The same operator with an attribute that every call has.
    pub(crate) const fn with_constant(
        self,
        attribute: &'static str,
        value: &'static str,
    ) -> TorchOperator {
        TorchOperator { constant: Some((attribute, value)), ..self }
    }
}

/// An operator with these overloads and arguments.
pub(crate) const fn operator(
    overloads: &'static [&'static str],
    arguments: &'static [TorchArgument],
) -> TorchOperator {
    TorchOperator { overloads, constant: None, arguments }
}

/// An operand.
pub(crate) const fn operand(name: &'static str) -> TorchArgument {
    TorchArgument { name, role: TorchRole::Operand }
}

/// An attribute of the same name.
pub(crate) const fn attribute(name: &'static str) -> TorchArgument {
    attribute_as(name, name)
}

/// An attribute of another name.
pub(crate) const fn attribute_as(name: &'static str, attribute: &'static str) -> TorchArgument {
    TorchArgument { name, role: TorchRole::Attribute(attribute) }
}

/// An argument that is not passed on.
pub(crate) const fn ignored(name: &'static str) -> TorchArgument {
    TorchArgument { name, role: TorchRole::Ignored }
}

/// An argument that is refused where it is set.
pub(crate) const fn refused_if_set(name: &'static str) -> TorchArgument {
    TorchArgument { name, role: TorchRole::RefusedIf(true) }
}

/// An argument that is refused where it is not set.
pub(crate) const fn refused_if_unset(name: &'static str) -> TorchArgument {
    TorchArgument { name, role: TorchRole::RefusedIf(false) }
}

/// An argument that is refused where it is another number than 1.
pub(crate) const fn one(name: &'static str) -> TorchArgument {
    TorchArgument { name, role: TorchRole::One }
}

/// The dtype of operand 0 and of the result.
pub(crate) const fn dtype(name: &'static str) -> TorchArgument {
    TorchArgument { name, role: TorchRole::Dtype }
}
