package fusionx

import java.io.File
import java.nio.ByteBuffer

/** Runs the generated class on files, in a Java machine: two inputs, then four outputs. */
fun main(words: Array<String>) {
    check(runCatching { Net("no/such/file") }.isFailure) { "a file that is not there" }
    val model = Net()
    model.x.put(File(words[0]).readBytes())
    model.in_scale.put(File(words[1]).readBytes())
    check(runCatching { Net.setThreads(65) }.isFailure) { "more threads than a pool has" }
    Net.setThreads(2)
    model.run()
    write(model.output_0, words[2])
    write(model.output_1, words[3])
    write(model.output_2, words[4])
    write(model.output_3, words[5])
    model.close()
    model.close()
}

private fun write(buffer: ByteBuffer, path: String) {
    val content = ByteArray(buffer.capacity())
    buffer.get(content)
    File(path).writeBytes(content)
}
