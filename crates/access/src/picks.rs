//! The limits of a token's tasks and campaigns. They say which classes these may have, how many
//! devices one may ask for, and how many picks they make in an hour.
//!
//! Class and count are checked here. Picks are counted where devices are picked.

use std::num::NonZeroU32;

use base::Problem;

use crate::Caller;

/// What a token's tasks and campaigns may ask for. By default everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PickLimits {
    /// The classes that they may have, by their names in the API; any if `None`.
    pub classes: Option<Box<[&'static str]>>,
    /// Picks that they may make in an hour, all together; no limit if `None`.
    pub picks_per_hour: Option<NonZeroU32>,
    /// The devices that one may ask for; no limit if `None`.
    pub count_max: Option<NonZeroU32>,
}

impl Caller {
    /// Whether its tasks and campaigns may have this class, and ask for so many devices.
    ///
    /// # Errors
    /// 403 `forbidden_class` or `count_too_large`.
    pub fn may_pick(&self, class: &str, count: u32) -> Result<(), Problem> {
        let PickLimits { classes, count_max, .. } = &self.token().picks;
        if let Some(classes) = classes
            && !classes.contains(&class)
        {
            let detail = format!(
                "token {:?} may not have class {class:?}; its classes are {}",
                self.name(),
                classes.join(", ")
            );
            return Err(Problem::new(403, "forbidden_class", detail));
        }
        if let Some(most) = count_max
            && count > most.get()
        {
            let name = self.name();
            let detail = format!("token {name:?} may ask for at most {most} devices; count is {count}");
            return Err(Problem::new(403, "count_too_large", detail));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Token;

    fn caller(classes: Option<&[&'static str]>, count_max: u32) -> Caller {
        let picks = PickLimits {
            classes: classes.map(Into::into),
            picks_per_hour: None,
            count_max: NonZeroU32::new(count_max),
        };
        Caller::new(Token { picks, ..Token::for_tests("probe", &["tasks"]) })
    }

    #[test]
    fn a_token_asks_for_what_its_limits_allow() {
        let allowed = Ok(());
        for (classes, count_max, class, count, expect) in [
            (None, 0, "large", u32::MAX, allowed),
            (Some(&["ordinary"][..]), 0, "ordinary", 1, allowed),
            (Some(&["ordinary"]), 0, "large", 1, Err("forbidden_class")),
            (None, 10, "large", 10, allowed),
            (None, 10, "large", 11, Err("count_too_large")),
            (Some(&["enterprise", "ordinary"]), 10, "large", 11, Err("forbidden_class")),
        ] {
            let told = caller(classes, count_max).may_pick(class, count);
            let told = told.map_err(|problem| (problem.status, problem.code));
            assert_eq!(told, expect.map_err(|code| (403, code)), "{class} {count}");
        }
    }
}
