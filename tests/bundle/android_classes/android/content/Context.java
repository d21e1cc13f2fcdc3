package android.content;

/** As far as an app of ours uses it; so are all classes here, with the signatures of Android 16. */
public abstract class Context {}
