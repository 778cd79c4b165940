/** Runes everywhere; the compiler's warnings, accessibility among them, fail the check. */
export default { compilerOptions: { runes: true } };
