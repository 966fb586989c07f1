// ethers as a client: deploys, sends, listens, reads and fails; says what it saw as JSON.
// Usage: node client.mjs URL PRIVATE_KEY CREATION_CODE REVERTING_CREATION_CODE
import { ContractFactory, JsonRpcProvider, NonceManager, Wallet, toBeHex, zeroPadValue } from 'ethers'

const [url, key, code, revertingCode] = process.argv.slice(2)
const word = (number) => zeroPadValue(toBeHex(number), 32)

const provider = new JsonRpcProvider(url, undefined, { pollingInterval: 100, cacheTimeout: -1 })
const wallet = new NonceManager(new Wallet(key, provider))
const seen = { chainId: Number((await provider.getNetwork()).chainId) }

// ethers estimates gas and fees by itself.
const contract = await (await new ContractFactory([], code, wallet).deploy()).waitForDeployment()
const address = await contract.getAddress()
seen.deployed = (await provider.getCode(address)).length > 2

const heard = []
await provider.on({ address }, (log) => heard.push(log.data))
const blocks = []
await provider.on('block', (number) => blocks.push(number))
const receipts = []
for (const number of [1, 2, 3]) {
  const sent = await wallet.sendTransaction({ to: address, data: word(number) + word(number + 10).slice(2) })
  receipts.push(await sent.wait())
}
while (heard.length < 3 || blocks.length === 0) await new Promise((resolve) => setTimeout(resolve, 50))
await provider.removeAllListeners()

seen.statuses = receipts.map((receipt) => receipt.status)
seen.heard = heard.map(Number)
seen.logs = (await provider.getLogs({ address, fromBlock: 0, topics: [null, word(2)] })).map((log) => Number(log.data))
seen.storage = Number(await provider.getStorage(address, word(3)))
seen.called = Number(await provider.call({ to: address, data: word(7) + word(8).slice(2) }))
seen.nonce = await provider.getTransactionCount(await wallet.getAddress())
const block = await provider.getBlock('latest', true)
seen.block = block.number === (await provider.getBlockNumber()) && block.prefetchedTransactions.length > 0
seen.confirmations = (await provider.getTransaction(receipts[0].hash)).blockNumber === receipts[0].blockNumber
seen.feeData = (await provider.getFeeData()).maxFeePerGas > 0n

const reverting = await (await new ContractFactory([], revertingCode, wallet).deploy()).waitForDeployment()
try {
  await provider.call({ to: await reverting.getAddress() })
} catch (error) {
  seen.revert = [error.code, error.reason]
}
try {
  await provider.broadcastTransaction(
    await new Wallet(key).signTransaction({ nonce: 0, gasLimit: 21000, gasPrice: 1e10, to: address, chainId: seen.chainId }),
  )
} catch (error) {
  seen.nonceTooLow = error.code
}
console.log(JSON.stringify(seen))
provider.destroy()
