package android.widget;

import android.content.Context;
import android.view.View;

/** Text that is shown. */
public class TextView extends View {
    private CharSequence text = "";

    public TextView(Context context) {}

    public CharSequence getText() {
        return text;
    }

    public final void setText(CharSequence text) {
        this.text = text;
    }
}
