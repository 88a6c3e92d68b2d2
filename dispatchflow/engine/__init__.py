"""Define and execute actions, and record their results. An action is a step, such as a compile."""
