plugins {
    id("com.android.application")
    id("org.jetbrains.kotlin.android")
}

android {
    namespace = "fusionx.example"
    compileSdk = 34

    defaultConfig {
        applicationId = "fusionx.example"
        // Of a model whose kernels have workspaces the library has thread-local storage, which
        // Android's loader knows since level 29.
        minSdk = 29
        targetSdk = 34
        ndk {
            abiFilters += "arm64-v8a"
        }
    }

    externalNativeBuild {
        cmake {
            path = file("src/main/cpp/CMakeLists.txt")
        }
    }

    sourceSets {
        // The class that lies in the bundle.
        getByName("main").kotlin.srcDirs("src/main/kotlin", "src/main/cpp/mobilenet")
    }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }

    kotlinOptions {
        jvmTarget = "17"
    }
}
