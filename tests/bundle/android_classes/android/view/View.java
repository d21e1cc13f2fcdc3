package android.view;

/** What is shown. */
public class View {}
