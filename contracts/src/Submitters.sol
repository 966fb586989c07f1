// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessControl} from "@openzeppelin/contracts/access/AccessControl.sol";

/// @title Who may write
/// @notice Submitters write; the admin says who is one. The admin has no power over anything written, and
/// cannot write unless it makes itself a submitter, which leaves a `RoleGranted` event.
/// @dev OpenZeppelin's AccessControl as it is: nothing overridden, nothing pausable, nothing upgradeable.
abstract contract Submitters is AccessControl {
    /// @notice The role that may write.
    bytes32 public constant SUBMITTER_ROLE = keccak256("SUBMITTER_ROLE");

    /// @notice A contract without an admin could never be given a new submitter.
    error ZeroAdmin();

    /// @notice Deploy with an admin and, if known already, a submitter.
    /// @param admin Grants and revokes roles.
    /// @param submitter The first submitter, or the zero address for none yet.
    constructor(address admin, address submitter) {
        if (admin == address(0)) revert ZeroAdmin();
        _grantRole(DEFAULT_ADMIN_ROLE, admin);
        if (submitter != address(0)) _grantRole(SUBMITTER_ROLE, submitter);
    }
}
