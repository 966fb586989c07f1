// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Outcome} from "./Outcome.sol";
import {Submitters} from "./Submitters.sol";

/// @title Witness of memories
/// @notice Logs each memory's event hash, once for ever for an account's number, and stores one evidence root
/// per batch. Whatever is logged may be ciphertext at most: no plaintext has a place here.
/// @dev Which numbers are recorded is one bit each, so numbers may come in any order and none can be locked
/// out by another. The event hashes are in the logs alone.
contract MemoryRegistry is Submitters {
    /// @notice What goes along with an event hash, where the deployment says so. No ciphertext, no payload.
    /// @param category 1 DECISION, 2 LEARNING, 3 INTERACTION, 4 STATE, 5 ERROR, 6 MILESTONE, 7 CUSTOM.
    /// @param importance From 1 to 10.
    /// @param contentLength Bytes of the plaintext.
    /// @param ciphertext The stored blob, as protocol §4; at most `MAX_CIPHERTEXT` bytes.
    struct Payload {
        uint8 category;
        uint8 importance;
        uint32 contentLength;
        bytes ciphertext;
    }

    /// @notice Consecutive memories of one account: what `record` takes.
    /// @param accountRef The account.
    /// @param firstNumber The first memory's number.
    /// @param eventHashes The memories' event hashes.
    /// @param payloads One for each memory, or an empty list.
    /// @param evidenceRoot The evidence root of all `eventHashes`.
    struct Batch {
        bytes32 accountRef;
        uint64 firstNumber;
        bytes32[] eventHashes;
        Payload[] payloads;
        bytes32 evidenceRoot;
    }

    /// @notice The longest ciphertext a memory's log takes, in bytes.
    uint256 public constant MAX_CIPHERTEXT = 64 * 1024;

    /// @notice The most numbers `areRecorded` answers at once.
    uint256 public constant MAX_PAGE = 256;

    mapping(bytes32 accountRef => mapping(uint256 index => uint256 word)) private _recorded;
    mapping(bytes32 accountRef => mapping(uint256 firstRecorded => bytes32 root)) private _roots;

    /// @notice A memory was recorded, without payload.
    /// @param accountRef The account, as protocol §2.
    /// @param number The memory's number.
    /// @param eventHash The memory's event hash, as protocol §3.
    event MemoryRecorded(bytes32 indexed accountRef, uint64 indexed number, bytes32 indexed eventHash);

    /// @notice A memory was recorded, with payload.
    /// @param accountRef The account, as protocol §2.
    /// @param number The memory's number.
    /// @param eventHash The memory's event hash, as protocol §3.
    /// @param category The category's code, as `Payload`.
    /// @param importance From 1 to 10.
    /// @param contentLength Bytes of the plaintext.
    /// @param ciphertext The blob, as protocol §4.
    event MemoryRecordedWithPayload(
        bytes32 indexed accountRef,
        uint64 indexed number,
        bytes32 indexed eventHash,
        uint8 category,
        uint8 importance,
        uint32 contentLength,
        bytes ciphertext
    );

    /// @notice An element of a batch was not recorded.
    /// @dev For `AlreadyThere` the contract can't say whether the hash is the same: the log of the number can.
    /// @param accountRef The batch's account.
    /// @param number The element's number.
    /// @param eventHash The element's hash.
    /// @param reason Why not.
    event MemorySkipped(
        bytes32 indexed accountRef,
        uint64 indexed number,
        bytes32 indexed eventHash,
        Outcome reason
    );

    /// @notice A memory was recorded, but its ciphertext was too long to go along.
    /// @param accountRef The account.
    /// @param number The memory's number.
    /// @param length Bytes of the ciphertext that was left out.
    event PayloadSkipped(bytes32 indexed accountRef, uint64 indexed number, uint256 length);

    /// @notice A batch was recorded, at least in part, and its root stored.
    /// @param accountRef The account.
    /// @param firstRecorded The first number recorded by this batch: the key of its root in `rootOf`.
    /// @param evidenceRoot The root, as given.
    /// @param firstNumber The first number of the batch as submitted.
    /// @param count How many memories the batch had as submitted; the root is over all of them.
    /// @param recorded How many of them were recorded by it.
    event BatchRecorded(
        bytes32 indexed accountRef,
        uint64 indexed firstRecorded,
        bytes32 indexed evidenceRoot,
        uint64 firstNumber,
        uint64 count,
        uint64 recorded
    );

    /// @notice Payloads are given for all memories of a batch or for none.
    /// @param payloads How many payloads were given.
    /// @param memories How many event hashes were given.
    error PayloadCount(uint256 payloads, uint256 memories);
    /// @notice A batch's numbers start at 1 or later and stay below 2^64 - 1.
    /// @param firstNumber The first number given.
    /// @param count How many event hashes were given.
    error NumbersOutOfRange(uint64 firstNumber, uint256 count);
    /// @notice A batch needs the evidence root of its event hashes.
    error ZeroRoot();
    /// @notice More numbers asked for than one answer holds.
    /// @param count How many were asked for.
    /// @param max The most there can be.
    error PageTooLarge(uint256 count, uint256 max);

    /// @notice Deploy with an admin and, if known already, a submitter.
    /// @param admin Grants and revokes roles.
    /// @param submitter The first submitter, or the zero address for none yet.
    constructor(address admin, address submitter) Submitters(admin, submitter) {}

    /// @notice Record consecutive memories of one account. One that is recorded already, or has no hash, is
    /// skipped and reported by `MemorySkipped`; it never stops the others.
    /// @dev The EVM has no SHA3-256, so the root is stored as the submitter computed it. Anyone can compute it
    /// again from the logged event hashes of the batch's numbers; if it differs, the submitter erred or lied.
    /// @param accountRef The account.
    /// @param firstNumber The first memory's number; the others follow without gaps.
    /// @param eventHashes The memories' event hashes.
    /// @param payloads One for each memory (an empty ciphertext means none), or an empty list.
    /// @param evidenceRoot Protocol §6's evidence root of all `eventHashes`, not zero.
    /// @return recorded How many were recorded.
    function record(
        bytes32 accountRef,
        uint64 firstNumber,
        bytes32[] calldata eventHashes,
        Payload[] calldata payloads,
        bytes32 evidenceRoot
    ) external onlyRole(SUBMITTER_ROLE) returns (uint256 recorded) {
        return _record(accountRef, firstNumber, eventHashes, payloads, evidenceRoot);
    }

    /// @notice `record` for batches of several accounts in one transaction.
    /// @param batches The batches.
    /// @return recorded How many memories were recorded in all.
    function recordMany(Batch[] calldata batches)
        external
        onlyRole(SUBMITTER_ROLE)
        returns (uint256 recorded)
    {
        for (uint256 i = 0; i < batches.length; ++i) {
            Batch calldata batch = batches[i];
            recorded += _record(
                batch.accountRef, batch.firstNumber, batch.eventHashes, batch.payloads, batch.evidenceRoot
            );
        }
    }

    /// @notice Whether a memory is recorded.
    /// @param accountRef The account.
    /// @param number The memory's number.
    /// @return True if its event hash is in this contract's logs.
    function isRecorded(bytes32 accountRef, uint64 number) external view returns (bool) {
        return _isRecorded(accountRef, number);
    }

    /// @notice Which of some consecutive memories are recorded.
    /// @param accountRef The account.
    /// @param firstNumber The first number.
    /// @param count How many, at most `MAX_PAGE`.
    /// @return recorded One for each number.
    function areRecorded(bytes32 accountRef, uint64 firstNumber, uint256 count)
        external
        view
        returns (bool[] memory recorded)
    {
        if (count > MAX_PAGE) revert PageTooLarge(count, MAX_PAGE);
        recorded = new bool[](count);
        for (uint256 i = 0; i < count; ++i) recorded[i] = _isRecorded(accountRef, uint256(firstNumber) + i);
    }

    /// @notice The evidence root stored with a batch.
    /// @param accountRef The account.
    /// @param firstRecorded The first number that the batch recorded, as `BatchRecorded` says.
    /// @return The root as given, or zero if no batch has that key.
    function rootOf(bytes32 accountRef, uint64 firstRecorded) external view returns (bytes32) {
        return _roots[accountRef][firstRecorded];
    }

    /// @dev Records what can be of one batch; stores its root and says so if anything was.
    function _record(
        bytes32 accountRef,
        uint64 firstNumber,
        bytes32[] calldata eventHashes,
        Payload[] calldata payloads,
        bytes32 evidenceRoot
    ) private returns (uint256 recorded) {
        _checkForm(firstNumber, eventHashes.length, payloads.length, evidenceRoot);
        mapping(uint256 => uint256) storage words = _recorded[accountRef];
        uint256 number = firstNumber;
        uint256 word = words[number >> 8];
        uint256 firstRecorded = 0;
        for (uint256 i = 0; i < eventHashes.length; ++i) {
            bytes32 eventHash = eventHashes[i];
            uint256 bit = 1 << (number & 0xff);
            if (word & bit != 0) {
                emit MemorySkipped(accountRef, uint64(number), eventHash, Outcome.AlreadyThere);
            } else if (eventHash == bytes32(0)) {
                emit MemorySkipped(accountRef, uint64(number), eventHash, Outcome.ZeroHash);
            } else {
                word |= bit;
                if (recorded == 0) firstRecorded = number;
                if (payloads.length == 0) emit MemoryRecorded(accountRef, uint64(number), eventHash);
                else _logWithPayload(accountRef, uint64(number), eventHash, payloads[i]);
                // Neither this nor the number can overflow: `_checkForm` checked the range.
                unchecked {
                    ++recorded;
                }
            }
            unchecked {
                ++number;
            }
            if (number & 0xff == 0) {
                words[(number - 1) >> 8] = word;
                word = words[number >> 8];
            }
        }
        if (recorded == 0) return 0;

        words[number >> 8] = word;
        _roots[accountRef][firstRecorded] = evidenceRoot;
        emit BatchRecorded(
            accountRef,
            uint64(firstRecorded),
            evidenceRoot,
            firstNumber,
            uint64(eventHashes.length),
            uint64(recorded)
        );
    }

    /// @dev Refuses a batch that is none: an error of whoever made the call, not of an element.
    function _checkForm(uint64 firstNumber, uint256 memories, uint256 payloads, bytes32 evidenceRoot)
        private
        pure
    {
        if (firstNumber == 0 || memories > type(uint64).max - firstNumber) {
            revert NumbersOutOfRange(firstNumber, memories);
        }
        if (payloads != 0 && payloads != memories) revert PayloadCount(payloads, memories);
        if (evidenceRoot == bytes32(0)) revert ZeroRoot();
    }

    /// @dev Logs a memory with its payload, or without where there is none or it is too long.
    function _logWithPayload(bytes32 accountRef, uint64 number, bytes32 eventHash, Payload calldata payload)
        private
    {
        uint256 length = payload.ciphertext.length;
        if (length == 0 || length > MAX_CIPHERTEXT) {
            emit MemoryRecorded(accountRef, number, eventHash);
            if (length != 0) emit PayloadSkipped(accountRef, number, length);
            return;
        }
        emit MemoryRecordedWithPayload(
            accountRef,
            number,
            eventHash,
            payload.category,
            payload.importance,
            payload.contentLength,
            payload.ciphertext
        );
    }

    /// @dev Whether a number's bit is set.
    function _isRecorded(bytes32 accountRef, uint256 number) private view returns (bool) {
        return _recorded[accountRef][number >> 8] & (1 << (number & 0xff)) != 0;
    }
}
