// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title What became of one element of a call
/// @notice The same codes in return values, in events that report a skipped element, and in errors.
/// @dev Codes are part of the ABI (`uint8`): never renumber, only append.
enum Outcome {
    /// 0: written now.
    Written,
    /// 1: this very value is there already; nothing to do. (`MemoryRegistry`: this number is there already.)
    AlreadyThere,
    /// 2: another value is there, and stays for ever.
    Conflict,
    /// 3: further than one above the project's latest version.
    Gap,
    /// 4: below the project's first version, or not above the ledger's latest head; can never be written.
    Behind,
    /// 5: the hash is zero.
    ZeroHash,
    /// 6: the version or place is zero; they count from 1.
    ZeroNumber
}
