package fusionx.example

import android.app.Activity
import android.os.Bundle
import android.widget.TextView
import fusionx.Mobilenet
import kotlin.concurrent.thread

/** Classifies a grey picture, and shows the best class and the time that it took. */
class MainActivity : Activity() {
    override fun onCreate(state: Bundle?) {
        super.onCreate(state)
        val text = TextView(this)
        setContentView(text)
        // Off the thread that draws.
        thread {
            Mobilenet.setThreads(THREADS)
            val told = Mobilenet().use(::classify)
            runOnUiThread { text.text = told }
        }
    }

    private fun classify(model: Mobilenet): String {
        val picture = model.image.asFloatBuffer()
        while (picture.hasRemaining()) picture.put(GREY)
        val begun = System.nanoTime()
        model.run()
        val milliseconds = (System.nanoTime() - begun) / NANOSECONDS
        val scores = FloatArray(model.output_0.asFloatBuffer().remaining())
        model.output_0.asFloatBuffer().get(scores)
        val best = scores.indices.reduce { one, two -> if (scores[two] > scores[one]) two else one }
        return "class $best, $milliseconds ms"
    }

    companion object {
        private const val GREY = 0.5f
        private const val THREADS = 4
        private const val NANOSECONDS = 1_000_000
    }
}
