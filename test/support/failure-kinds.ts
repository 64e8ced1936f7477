import { attemptErrors, tokenReasons } from "../../src/core/reasons.ts";

/** The ways in which an exchange can end without a response of the receiver. */
export const failureKinds = attemptErrors;

/** Failures of the receiver, or on the way to it. */
export const receiverFailures = attemptErrors.filter((kind) => !tokenReasons.some((one) => one === kind));
