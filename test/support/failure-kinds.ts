import { attemptErrors } from "../../src/core/reasons.ts";

/** The ways in which an exchange can end without a response of the receiver. */
export const failureKinds = attemptErrors;
