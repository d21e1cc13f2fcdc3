package android.app;

import android.content.Context;
import android.os.Bundle;
import android.view.View;
import android.widget.TextView;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** A screen, in a Java machine: {@link #main} opens one, and says what its text is in the end. */
public class Activity extends Context {
    private final BlockingQueue<Runnable> waiting = new LinkedBlockingQueue<>();
    private View shown;

    protected void onCreate(Bundle savedInstanceState) {}

    public void setContentView(View view) {
        shown = view;
    }

    public final void runOnUiThread(Runnable action) {
        waiting.add(action);
    }

    public static void main(String[] words) throws Exception {
        Activity opened = (Activity) Class.forName(words[0]).getDeclaredConstructor().newInstance();
        opened.onCreate(null);
        opened.waiting.take().run();
        System.out.println(((TextView) opened.shown).getText());
    }
}
