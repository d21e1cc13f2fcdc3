package android.os;

/** What an activity is told of its last life. */
public final class Bundle {}
