// An app that classifies a picture by a bundle in app/src/main/cpp/mobilenet:
//   fusionx zoo export mobilenet-v2
//   fusionx compile mobilenet-v2.onnx --device android-arm64 --bundle app/src/main/cpp/mobilenet --bundle-tasks 4
pluginManagement {
    repositories {
        google()
        mavenCentral()
        gradlePluginPortal()
    }
}

dependencyResolutionManagement {
    repositories {
        google()
        mavenCentral()
    }
}

rootProject.name = "classify"
include(":app")
